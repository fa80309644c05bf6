"""The processes of each run as the journal knows them, so that a later listener can end them.

A marker is written down before anything starts with it, and the process ids and start times when it
has: whatever dies in between, what carries the marker is found. Never signals anything.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from contracts.clock import Clock
from worker.journal.store import JournalFile


@dataclass(frozen=True, slots=True)
class RecordedProcess:
    """One process, or a marker under which one may have been started (`pid` 0). `started` is in
    Unix seconds, as psutil tells it; `role` is a word for people."""

    job: str
    pid: int
    started: float
    role: str
    marker: str
    ended_at: float | None = None


class Processes:
    """The table of recorded processes."""

    def __init__(self, file: JournalFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock

    def expect(self, job_id: str, role: str, marker: str) -> None:
        """Write down, on disk when this returns, that something starts with `marker`."""
        self.add([RecordedProcess(job_id, 0, 0.0, role, marker)])

    def add(self, processes: Iterable[RecordedProcess]) -> None:
        """Write down running processes."""
        now = self._clock.wall()
        rows = [(p.job, p.pid, p.started, p.role, p.marker, now) for p in processes]
        with self._file.writing() as database:
            database.executemany(
                "INSERT OR REPLACE INTO processes (job, pid, started, role, marker, at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )

    def end(self, marker: str) -> None:
        """Note that nothing which carries `marker` runs any more."""
        self._end("marker = ?", marker)

    def end_job(self, job_id: str) -> None:
        """Note that nothing of a job runs any more."""
        self._end("job = ?", job_id)

    def of(self, job_id: str) -> list[RecordedProcess]:
        """Return what was recorded for a job, oldest first."""
        with self._file.reading() as database:
            rows = database.execute(
                "SELECT job, pid, started, role, marker, ended_at FROM processes WHERE job = ?"
                " ORDER BY at, pid",
                (job_id,),
            ).fetchall()
        return [_read(row) for row in rows]

    def running(self, job_id: str) -> list[RecordedProcess]:
        """Return what was recorded for a job and has no end yet."""
        return [process for process in self.of(job_id) if process.ended_at is None]

    def _end(self, which: str, value: str) -> None:
        with self._file.writing() as database:
            database.execute(
                f"UPDATE processes SET ended_at = ? WHERE {which} AND ended_at IS NULL",  # noqa: S608 - two constants of ours
                (self._clock.wall(), value),
            )


def _read(row: sqlite3.Row) -> RecordedProcess:
    return RecordedProcess(*tuple(row))
