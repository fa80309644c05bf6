"""What this sender signed: its own record, on its own disk.

A result counts only for a job that stands here, since it is bound to the exact bytes that were
signed. Each job is written before it is pushed, so no crash leaves a job whose result cannot be
checked. The signed envelope is kept until a result is there: a job that the broker lost is sent
again byte for byte. Never believes the broker.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from pathlib import Path
from typing import Final

from contracts import limits
from dispatch.sent_cancels import SentCancels
from dispatch.sent_file import KEEP_S, SentFile
from dispatch.sent_keys import AskedOnce, add_key, find_key
from dispatch.sent_receipts import SentReceipts

_FORGET_EVERY_S: Final = 3_600.0  # of 90 days
# Jobs whose end is open. One that was never accepted is nobody's concern once its time is over.
_OPEN: Final = """
    has_end = 0
    AND job_id NOT IN (SELECT job_id FROM results) AND job_id NOT IN (SELECT job_id FROM receipts)
    AND (pushed_at IS NOT NULL OR exp >= ?)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentJob:
    """One signed job. `sha256` is the hex digest of its payload bytes; times are Unix seconds."""

    job_id: str
    aud: str
    lane: str
    kind: str
    queue_name: str
    sha256: str
    iat: int
    exp: int
    agent: str
    ticket: str
    repo: str
    mode: str
    envelope: str = field(repr=False)  # "" once a result is there
    broker: str = ""  # the data mark of the broker before the first push; "" before that
    pushed_at: int | None = None  # None: a push was never seen to have worked
    give_up_at: int | None = None  # None: the sender did not say, see `endings`
    pushes: int = 0  # how often it was pushed again
    tried_at: int = 0  # the last of these
    looked_at: int = 0  # the last sweep
    url: str = ""  # of the HTTP door that it was sent to; "" for a queue
    cacert: str = ""  # the file of authorities that was named for that door
    door_host: str = ""  # the host that said there, signed, that it has the job

    @property
    def target(self) -> str:
        """Return the host that the job is for, "" when any host of the lane may take it."""
        kind, _, name = self.aud.partition(":")
        return name if kind == "host" else ""


_COLUMNS: Final = ", ".join(item.name for item in fields(SentJob))
_MARKS: Final = ", ".join("?" for _ in fields(SentJob))
_row: Final = attrgetter(*(item.name for item in fields(SentJob)))
_SELECT: Final = f"SELECT {_COLUMNS} FROM sent"  # noqa: S608 - a constant
_INSERT: Final = f"INSERT INTO sent ({_COLUMNS}) VALUES ({_MARKS})"  # noqa: S608 - both are constants


class SentJobs:
    """The record: safe from threads and from several processes."""

    def __init__(self, path: Path) -> None:
        self._file = SentFile(path)
        self._forgotten_at: float | None = None
        self.receipts = SentReceipts(self._file)
        self.cancels = SentCancels(self._file)

    def close(self) -> None:
        """Close the file. A later call opens it again."""
        self._file.close()

    def record(self, jobs: Sequence[SentJob], *, now: float) -> None:
        """Write `jobs`, all or none, so that they outlive every process, though not always a power
        cut. Raises Unavailable when the disk says no."""
        with self._file.writing(outlives_power=False) as connection:
            self._forget(connection, now)
            connection.executemany(_INSERT, map(_row, jobs))

    def record_once(
        self, jobs: Sequence[SentJob], once: AskedOnce, *, now: float
    ) -> tuple[str, list[SentJob]]:
        """Write `jobs` under a key, on the disk itself, unless that key was used before.

        Returns what was asked for and the jobs that hold, whichever process came first.
        """
        return self.record_each_once([(once, jobs)], now=now)[0]

    def record_each_once(
        self, wanted: Iterable[tuple[AskedOnce, Sequence[SentJob]]], *, now: float
    ) -> list[tuple[str, list[SentJob]]]:
        """Write jobs under several keys in one step; see `record_once`."""
        with self._file.writing() as connection:
            self._forget(connection, now)
            return [_once(connection, once, jobs, now) for once, jobs in wanted]

    def asked_under(self, wanted: Iterable[AskedOnce]) -> list[str | None]:
        """Return what was asked for under each of these keys, None for a new one."""
        with self._file.reading() as connection:
            found = [find_key(connection, once) for once in wanted]
        return [None if held is None else held[0] for held in found]

    def sent_under(self, once: AskedOnce) -> tuple[str, list[SentJob]] | None:
        """Return what was asked for and sent under a key, None when it is new."""
        with self._file.reading() as connection:
            held = find_key(connection, once)
        if held is None:
            return None
        found = [self.find(job_id) for job_id in held[1]]
        return held[0], [job for job in found if job is not None]

    def find(self, job_id: str) -> SentJob | None:
        """Return the job that this sender signed under that id, None when there is none."""
        with self._file.reading() as connection:
            row = connection.execute(f"{_SELECT} WHERE job_id = ?", (job_id,)).fetchone()
        return None if row is None else _job(row)

    def recent(self, limit: int) -> list[SentJob]:
        """Return at most `limit` jobs, newest first."""
        query = f"{_SELECT} ORDER BY iat DESC, rowid DESC LIMIT ?"
        with self._file.reading() as connection:
            return [_job(row) for row in connection.execute(query, (limit,))]

    def open_jobs(self, limit: int, *, now: float) -> list[SentJob]:
        """Return at most `limit` jobs without an end, those that were not looked at for longest
        first, and note that they were looked at."""
        bound = int(now) - limits.SKEW_S
        query = f"{_SELECT} WHERE {_OPEN} ORDER BY looked_at, iat LIMIT ?"
        with self._file.writing() as connection:
            jobs = [_job(row) for row in connection.execute(query, (bound, limit))]
            looked = [(int(now), job.job_id) for job in jobs]
            connection.executemany("UPDATE sent SET looked_at = ? WHERE job_id = ?", looked)
        return jobs

    def note_pushing(self, job_ids: Sequence[str], broker: str) -> None:
        """Note, unless one stands there, the data mark of the broker before a push."""
        query = "UPDATE sent SET broker = ? WHERE job_id = ? AND broker = ''"
        with self._file.writing() as connection:
            connection.executemany(query, [(broker, job_id) for job_id in job_ids])

    def note_pushed(self, job_ids: Sequence[str], *, now: float) -> None:
        """Note that the broker has these jobs, or had them. A power cut may take the note: then
        the next look at the broker makes it again, or the broker's new mark says that nobody
        knows."""
        query = "UPDATE sent SET pushed_at = ? WHERE job_id = ? AND pushed_at IS NULL"
        with self._file.writing(outlives_power=False) as connection:
            connection.executemany(query, [(int(now), job_id) for job_id in job_ids])

    def note_accepted(self, job_id: str, host: str, *, now: float) -> None:
        """Note that `host` has a job that was sent to its door."""
        query = """
            UPDATE sent SET pushed_at = coalesce(pushed_at, ?), door_host = ? WHERE job_id = ?
        """
        with self._file.writing() as connection:
            connection.execute(query, (int(now), host, job_id))

    def note_pushed_again(self, job_id: str, *, now: float) -> None:
        """Count one more push of a job."""
        query = "UPDATE sent SET pushes = pushes + 1, tried_at = ? WHERE job_id = ?"
        with self._file.writing() as connection:
            connection.execute(query, (int(now), job_id))

    def set_give_up(self, job_id: str, at: float) -> None:
        """Note until when (Unix seconds) this sender waits for a job."""
        with self._file.writing() as connection:
            query = "UPDATE sent SET give_up_at = ? WHERE job_id = ?"
            connection.execute(query, (int(at), job_id))

    def keep_result(self, job_id: str, envelope: str) -> str:
        """Keep the first verified result of a job and return the one that is kept.

        A later one never replaces it, whichever process came first.
        """
        with self._file.writing() as connection:
            connection.execute("INSERT OR IGNORE INTO results VALUES (?, ?)", (job_id, envelope))
            connection.execute(
                "UPDATE sent SET envelope = '', has_end = 1 WHERE job_id = ?", (job_id,)
            )
            row = connection.execute(
                "SELECT envelope FROM results WHERE job_id = ?", (job_id,)
            ).fetchone()
        return str(row[0])

    def kept_result(self, job_id: str) -> str | None:
        """Return the first verified result of a job, None when there is none yet."""
        with self._file.reading() as connection:
            row = connection.execute(
                "SELECT envelope FROM results WHERE job_id = ?", (job_id,)
            ).fetchone()
        return None if row is None else str(row[0])

    def _forget(self, connection: sqlite3.Connection, now: float) -> None:
        """Drop what is too old to matter: at the first record of a program, then once an hour."""
        last = self._forgotten_at
        if last is not None and 0 <= now - last < _FORGET_EVERY_S:
            return
        bound = (int(now) - KEEP_S,)
        connection.execute("DELETE FROM sent WHERE iat < ?", bound)
        connection.execute("DELETE FROM keys WHERE at < ?", bound)
        self._forgotten_at = now


def _once(
    connection: sqlite3.Connection, once: AskedOnce, jobs: Sequence[SentJob], now: float
) -> tuple[str, list[SentJob]]:
    held = find_key(connection, once)
    if held is None:
        connection.executemany(_INSERT, map(_row, jobs))
        add_key(connection, once, [job.job_id for job in jobs], now=now)
        return once.asked, list(jobs)
    rows = [connection.execute(f"{_SELECT} WHERE job_id = ?", (i,)) for i in held[1]]
    return held[0], [_job(row.fetchone()) for row in rows]


def _job(row: Sequence[object]) -> SentJob:
    names = [item.name for item in fields(SentJob)]
    return SentJob(**dict(zip(names, row, strict=True)))  # type: ignore[arg-type] # STRICT columns
