"""Which jobs their senders took back: kept before anything is done about it, and kept for a job
that has not come yet, so that it never starts here.

A cancel belongs to a sender and to the exact bytes of a job, so that nobody takes back another's.
Kept until no job as old as it may come any more. Ends nothing itself.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Final

from contracts import limits
from contracts.clock import Clock
from contracts.errors import EnvelopeRefused
from worker.journal import epoch
from worker.journal.store import JournalFile
from worker.journal.witness import Witness

# Of jobs that are not known here, for one sender within seven days.
UNKNOWN_MAX: Final = 10_000
# A job that was issued before its cancel can be accepted no longer than this after it.
KEPT_S: Final = limits.JOB_TTL_MAX_S + 2 * limits.SKEW_S


@dataclass(frozen=True, slots=True)
class Cancel:
    """One order to end a job. `iat` is when it was signed (Unix seconds), `why` for people."""

    job: str
    iss: str
    job_sha256: str
    iat: int
    why: str = ""


class Cancels:
    """The cancels in one journal."""

    def __init__(self, file: JournalFile, clock: Clock, witness: Witness | None) -> None:
        self._file = file
        self._clock = clock
        self._witness = witness

    def keep(self, cancel: Cancel, *, is_known: bool) -> bool:
        """Keep `cancel`, on disk when this returns; say whether it is news.

        `is_known` says that its job stands in the journal. Raises EnvelopeRefused (`too_many`) when
        one sender took back too many jobs that never came.
        """
        with self._file.writing() as database:
            if _find(database, cancel.job, cancel.iss, cancel.job_sha256) is not None:
                return False
            if not is_known and _count(database, cancel.iss) >= UNKNOWN_MAX:
                raise EnvelopeRefused("too many cancels of jobs that are not here", code="too_many")
            database.execute(
                "INSERT INTO cancels (job, iss, job_sha256, iat, why, taken_at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (
                    *(cancel.job, cancel.iss, cancel.job_sha256, cancel.iat, cancel.why),
                    self._clock.wall(),
                ),
            )
            if self._witness is not None:
                epoch.count_one(database)
        if self._witness is not None:
            self._witness.add(cancel.iat)
        return True

    def find(self, job_id: str, *, iss: str, job_sha256: str) -> Cancel | None:
        """Return the cancel of exactly that job by its sender, None when there is none."""
        with self._file.reading() as database:
            return _find(database, job_id, iss, job_sha256)

    def concerned(self, owner: str) -> list[str]:
        """Return the ids of the jobs that `owner` holds and that have no end: those whose cancels
        are looked for."""
        query = (
            "SELECT jti FROM jobs WHERE result IS NULL AND owner = ? AND 'refused' !="
            " (SELECT state FROM transitions WHERE job = jti ORDER BY id DESC LIMIT 1)"
        )
        with self._file.reading() as database:
            return [str(row["jti"]) for row in database.execute(query, (owner,))]

    def of_job(self, job_id: str) -> Cancel | None:
        """Return the cancel of a job that stands in this journal, None when there is none."""
        query = (
            "SELECT cancels.job, cancels.iss, cancels.job_sha256, cancels.iat, cancels.why"
            " FROM cancels JOIN jobs ON jti = job AND jobs.iss = cancels.iss"
            " AND jobs.job_sha256 = cancels.job_sha256 WHERE job = ?"
        )
        with self._file.reading() as database:
            row = database.execute(query, (job_id,)).fetchone()
        return None if row is None else Cancel(*tuple(row))


def forget_old(database: sqlite3.Connection, now: float) -> float:
    """Forget cancels whose jobs nobody accepts any more; return the moment before which no job may
    be accepted because of that, should the clock go back (0 when none was forgotten)."""
    bound = (int(now) - KEPT_S,)
    newest = database.execute("SELECT max(iat) FROM cancels WHERE iat < ?", bound).fetchone()[0]
    if newest is None:
        return 0.0
    database.execute("DELETE FROM cancels WHERE iat < ?", bound)
    return float(newest) + 1.0


def _count(database: sqlite3.Connection, iss: str) -> int:
    row = database.execute("SELECT count(*) FROM cancels WHERE iss = ?", (iss,)).fetchone()
    return int(row[0])


def _find(database: sqlite3.Connection, job_id: str, iss: str, sha256: str) -> Cancel | None:
    query = (
        "SELECT job, iss, job_sha256, iat, why FROM cancels"
        " WHERE job = ? AND iss = ? AND job_sha256 = ?"
    )
    row = database.execute(query, (job_id, iss, sha256)).fetchone()
    return None if row is None else Cancel(*tuple(row))
