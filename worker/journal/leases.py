"""Leases in the journal: who of several processes, and of the jobs in one, may do a thing now.

A lease of a live process of this machine is never taken over, whatever its time says; one of a
dead process is free at once; one of a process that cannot be seen from here (another machine with
the same home, an earlier container) is free when its time is out.
"""

from __future__ import annotations

from contracts.clock import Clock
from worker.journal.owners import is_alive, this_process
from worker.journal.store import JournalFile


class Leases:
    """The leases of one journal, taken in the name of the calling process."""

    def __init__(self, file: JournalFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._owner = this_process()

    def acquire(self, kind: str, key: str, *, seconds: float, by: str = "") -> str | None:
        """Take or renew a lease; return None when it is ours now, else the owner who keeps it.

        `by` tells holders within this process apart, such as the jobs of one listener.
        """
        now, owner = self._clock.wall(), self._name(by)
        with self._file.writing() as database:
            row = database.execute(
                "SELECT owner, until FROM leases WHERE kind = ? AND key = ?", (kind, key)
            ).fetchone()
            if row is not None and row["owner"] != owner:
                alive = is_alive(row["owner"])
                if alive or (alive is None and row["until"] > now):
                    return str(row["owner"])
            database.execute(
                "INSERT OR REPLACE INTO leases (kind, key, owner, until) VALUES (?, ?, ?, ?)",
                (kind, key, owner, now + seconds),
            )
        return None

    def holder(self, kind: str, key: str) -> str | None:
        """Return the owner of a lease that is neither ours nor free, else None."""
        with self._file.reading() as database:
            row = database.execute(
                "SELECT owner, until FROM leases WHERE kind = ? AND key = ?", (kind, key)
            ).fetchone()
        if row is None or row["owner"] == self._owner:
            return None
        alive = is_alive(row["owner"])
        is_held = alive or (alive is None and row["until"] > self._clock.wall())
        return str(row["owner"]) if is_held else None

    def release(self, kind: str, key: str, *, by: str = "") -> None:
        """Give a lease back if it is ours."""
        with self._file.writing() as database:
            database.execute(
                "DELETE FROM leases WHERE kind = ? AND key = ? AND owner = ?",
                (kind, key, self._name(by)),
            )

    def _name(self, by: str) -> str:
        return f"{self._owner}#{by}" if by else self._owner
