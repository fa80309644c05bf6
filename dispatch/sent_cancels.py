"""Which of its jobs this sender takes back, as it stands in its record: the wish outlives a broker
that is away and a host that sleeps. Signed and sent elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from dispatch.sent_file import SentFile


@dataclass(frozen=True, slots=True)
class Wish:
    """That a job be ended: why, and since when (Unix seconds). `envelope` is the newest signed
    cancel, "" before the first, signed at `signed_at`."""

    job_id: str
    why: str
    at: int
    envelope: str = field(default="", repr=False)
    signed_at: int = 0


class SentCancels:
    """The wishes in one record; every method may raise Unavailable."""

    def __init__(self, file: SentFile) -> None:
        self._file = file

    def keep(self, job_id: str, why: str, *, now: float) -> Wish:
        """Keep a wish, on disk when this returns, and return the one that holds: the first."""
        with self._file.writing() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO cancels VALUES (?, ?, ?, '', 0)", (job_id, why, int(now))
            )
            row = connection.execute(_SELECT, (job_id,)).fetchone()
        return Wish(*row)

    def find(self, job_id: str) -> Wish | None:
        """Return the wish about a job, None when there is none."""
        with self._file.reading() as connection:
            row = connection.execute(_SELECT, (job_id,)).fetchone()
        return None if row is None else Wish(*row)

    def keep_signed(self, job_id: str, envelope: str, *, at: int) -> None:
        """Keep the newest signed cancel of a job."""
        with self._file.writing() as connection:
            query = "UPDATE cancels SET envelope = ?, signed_at = ? WHERE job_id = ?"
            connection.execute(query, (envelope, at, job_id))


_SELECT: Final = "SELECT job_id, why, at, envelope, signed_at FROM cancels WHERE job_id = ?"
