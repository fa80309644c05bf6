"""The journal of a host: what it claimed, what became of it, and what it still owes its senders.

SQLite in WAL with full sync; several processes write. A claim is committed before anything runs,
so a message that comes again starts nothing. The first result is the only one: nothing changes a
job that has ended. Holds no prompt and no key, and never starts or stops anything.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from pathlib import Path
from typing import Final

from contracts import limits
from contracts.clock import Clock
from contracts.errors import EnvelopeRefused
from worker.journal_records import (
    LOCAL_SENDER,
    SELECT_JOBS,
    JobRecord,
    NewJob,
    Transition,
    read_record,
    read_transition,
)
from worker.journal_schema import JobState
from worker.journal_store import JournalFile
from worker.journal_trees import JournalTrees
from worker.leases import Leases
from worker.owners import is_alive, this_process
from worker.repo_trust import JournalRepoTrust
from worker.witness import Witness

_WHY_MAX_CHARS: Final = 500

# A job without a result that is past its time was declined here and belongs to another host.
_FORGET_JOBS: Final = """
    DELETE FROM jobs WHERE exp < ?2 AND (published_at < ?1 OR (result IS NULL AND 'refused' =
        (SELECT state FROM transitions WHERE job = jti ORDER BY id DESC LIMIT 1)))
"""
_FORGOTTEN_FACTS: Final = "SELECT facts FROM jobs WHERE exp < ?2 AND published_at < ?1"
_FORGET_HISTORY: Final = "DELETE FROM transitions WHERE job NOT IN (SELECT jti FROM jobs)"


class Journal:
    """One open journal; safe to share between threads. Every method may raise Unavailable (disk
    full, read-only, locked too long) or CouldNotCheck (the file is not a sound journal)."""

    def __init__(
        self, path: str | Path, clock: Clock, *, witness: str | Path | None = None
    ) -> None:
        """Open or create the journal at `path` (0600 in a folder 0700).

        `witness` is a file in another folder that counts claims. A journal that knows fewer was
        lost or restored from an older copy: every job issued before this moment is then refused,
        because it may have run already.
        """
        self._clock = clock
        self._owner = this_process()
        self._witness = None if witness is None else Witness(Path(witness))
        self._file = JournalFile(Path(path))
        self.leases = Leases(self._file, clock)
        self.trees = JournalTrees(self._file, clock, self.leases)
        self.repositories = JournalRepoTrust(self._file, clock)
        if self._witness is not None:
            self._check_witness(self._witness)

    def close(self) -> None:
        """Close the file; nothing of the journal may be used afterwards."""
        self._file.close()

    def claim(self, job: NewJob) -> JobRecord | None:
        """Claim a job for this host, committed on disk when this returns.

        Returns None when the job is ours to start, else the earlier record of the same id: then
        it must not be started. Raises EnvelopeRefused (code `before_epoch`) for a job issued
        before the journal's epoch.
        """
        now = self._clock.wall()
        with self._file.writing() as database:
            earlier = _find(database, job.jti)
            if earlier is not None:
                return earlier
            if job.iat is not None and job.iat < _number(database, "epoch"):
                raise EnvelopeRefused("issued before this host's journal", code="before_epoch")
            facts = dict(job.facts) if job.iat is None else {**job.facts, "iat": str(job.iat)}
            columns = (job.jti, job.iss, job.kind, job.lane, job.aud, job.job_sha256, job.exp)
            database.execute(
                "INSERT INTO jobs (jti, iss, kind, lane, aud, job_sha256, exp, claimed_at, owner,"
                " facts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*columns, now, self._owner, json.dumps(facts)),
            )
            self._add(database, job.jti, 0, JobState.CLAIMED, "")
            _set_number(database, "claims", _number(database, "claims") + 1)
        if self._witness is not None:
            self._witness.add()
        return None

    def record(
        self, job_id: str, state: JobState, *, attempt: int = 0, why: str = "", worktree: str = ""
    ) -> bool:
        """Write one transition; say whether it was written: a job that has ended takes none."""
        with self._file.writing() as database:
            if not _is_open(database, job_id):
                return False
            self._add(database, job_id, attempt, state, why)
            if worktree:
                database.execute("UPDATE jobs SET worktree = ? WHERE jti = ?", (worktree, job_id))
        return True

    def finish(
        self, job_id: str, result: bytes, *, sealed: str | None = None, why: str = ""
    ) -> bool:
        """Keep the result and its signed envelope; say whether it is the first, which holds."""
        with self._file.writing() as database:
            if not _is_open(database, job_id):
                return False
            database.execute(
                "UPDATE jobs SET result = ?, sealed = ? WHERE jti = ?", (result, sealed, job_id)
            )
            row = database.execute(
                "SELECT max(attempt) FROM transitions WHERE job = ?", (job_id,)
            ).fetchone()
            self._add(database, job_id, row[0] or 0, JobState.DONE, why)
        return True

    def keep_sealed(self, job_id: str, sealed: str) -> str:
        """Keep the signed envelope of a result that has none yet; return the one that holds."""
        with self._file.writing() as database:
            database.execute(
                "UPDATE jobs SET sealed = ? WHERE jti = ? AND sealed IS NULL AND result NOT NULL",
                (sealed, job_id),
            )
            row = database.execute("SELECT sealed FROM jobs WHERE jti = ?", (job_id,)).fetchone()
        return str(row["sealed"])

    def mark_published(self, job_id: str) -> None:
        """Note that the sender's side holds the result."""
        with self._file.writing() as database:
            changed = database.execute(
                "UPDATE jobs SET published_at = ? WHERE jti = ? AND published_at IS NULL",
                (self._clock.wall(), job_id),
            )
            if changed.rowcount:
                self._add(database, job_id, 0, JobState.PUBLISHED, "")

    def unpublished(self) -> list[JobRecord]:
        """Return the senders' jobs whose result was not delivered yet, oldest first."""
        with self._file.reading() as database:
            rows = database.execute(
                f"{SELECT_JOBS} published_at IS NULL AND result NOT NULL AND iss != ?"
                " ORDER BY claimed_at",
                (LOCAL_SENDER,),
            ).fetchall()
        return [read_record(row) for row in rows]

    def orphans(self) -> list[JobRecord]:
        """Return the jobs that began here and have no end though their process is gone."""
        with self._file.reading() as database:
            rows = database.execute(f"{SELECT_JOBS} result IS NULL ORDER BY claimed_at").fetchall()
        records = [read_record(row) for row in rows]
        waiting = [record for record in records if record.state is not JobState.REFUSED]
        return [record for record in waiting if is_alive(record.owner) is False]

    def find(self, job_id: str) -> JobRecord | None:
        """Return the record of a job, or None."""
        with self._file.reading() as database:
            return _find(database, job_id)

    def history(self, job_id: str) -> list[Transition]:
        """Return the transitions of a job in the order in which they were written."""
        with self._file.reading() as database:
            rows = database.execute(
                "SELECT attempt, state, at, pid, why FROM transitions WHERE job = ? ORDER BY id",
                (job_id,),
            ).fetchall()
        return [read_transition(row) for row in rows]

    def epoch(self) -> float:
        """Return the moment before which no issued job is accepted; 0 if nothing was lost."""
        with self._file.reading() as database:
            return _number(database, "epoch")

    def instance(self) -> str:
        """Return what tells this journal from every other one, of a namesake's machine too."""
        with self._file.writing() as database:
            query = "INSERT OR IGNORE INTO meta (key, value) VALUES ('instance', ?)"
            database.execute(query, (secrets.token_hex(8),))
            row = database.execute("SELECT value FROM meta WHERE key = 'instance'").fetchone()
        return str(row["value"])

    def prune(self) -> int:
        """Forget delivered jobs that nobody may ask for any more; return how many.

        A job goes when its result's seven days are over and its envelope has expired for good:
        from then on the check of the claims alone refuses a replay. Should the clock have been
        wrong, and go back, the journal's epoch refuses it: nothing as old as that is taken again.
        """
        now = self._clock.wall()
        bounds = (now - limits.RESULT_TTL_S, int(now - 2 * limits.SKEW_S))
        with self._file.writing() as database:
            rows = database.execute(_FORGOTTEN_FACTS, bounds).fetchall()
            issued = [int(json.loads(row["facts"]).get("iat", 0)) for row in rows]
            epoch = max([_number(database, "epoch"), *(moment + 1.0 for moment in issued)])
            _set_number(database, "epoch", epoch)
            forgotten = database.execute(_FORGET_JOBS, bounds).rowcount
            database.execute(_FORGET_HISTORY)
        return forgotten

    def _check_witness(self, witness: Witness) -> None:
        """Set a new epoch when claims are missing. One claim may be under way in another process
        between its commit and its byte, which only ever makes the witness the smaller one."""
        with self._file.writing() as database:
            seen = witness.count()
            if seen > _number(database, "claims"):
                _set_number(database, "epoch", self._clock.wall())
                _set_number(database, "claims", seen)

    def _add(
        self, database: sqlite3.Connection, job_id: str, attempt: int, state: JobState, why: str
    ) -> None:
        database.execute(
            "INSERT INTO transitions (job, attempt, state, at, pid, why) VALUES (?, ?, ?, ?, ?, ?)",
            (job_id, attempt, state, self._clock.wall(), os.getpid(), why[:_WHY_MAX_CHARS]),
        )


def _find(database: sqlite3.Connection, job_id: str) -> JobRecord | None:
    row = database.execute(f"{SELECT_JOBS} jti = ?", (job_id,)).fetchone()
    return None if row is None else read_record(row)


def _is_open(database: sqlite3.Connection, job_id: str) -> bool:
    query = "SELECT 1 FROM jobs WHERE jti = ? AND result IS NULL"
    return database.execute(query, (job_id,)).fetchone() is not None


def _number(database: sqlite3.Connection, key: str) -> float:
    row = database.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return 0.0 if row is None else float(row["value"])


def _set_number(database: sqlite3.Connection, key: str, value: float) -> None:
    database.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, repr(value)))
