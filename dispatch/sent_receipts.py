"""The sender's own ends of its jobs, as they stand in its record. Signed and checked elsewhere."""

from __future__ import annotations

from dispatch.sent_file import SentFile


class SentReceipts:
    """The receipts in one record; every method may raise Unavailable."""

    def __init__(self, file: SentFile) -> None:
        self._file = file

    def keep(self, job_id: str, envelope: str) -> str | None:
        """Keep the first receipt of a job and return the one that is kept, whichever process came
        first; None, and nothing is kept, when a result is there already."""
        with self._file.writing() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO receipts (job_id, envelope) SELECT ?1, ?2"
                " WHERE ?1 NOT IN (SELECT job_id FROM results)",
                (job_id, envelope),
            )
            query = "SELECT envelope FROM receipts WHERE job_id = ?"
            row = connection.execute(query, (job_id,)).fetchone()
            if row is not None:
                connection.execute("UPDATE sent SET has_end = 1 WHERE job_id = ?", (job_id,))
        return None if row is None else str(row[0])

    def kept(self, job_id: str) -> str | None:
        """Return the receipt of a job, None when there is none."""
        with self._file.reading() as connection:
            query = "SELECT envelope FROM receipts WHERE job_id = ?"
            row = connection.execute(query, (job_id,)).fetchone()
        return None if row is None else str(row[0])

    def untold(self, limit: int) -> list[str]:
        """Return the ids of at most `limit` jobs whose receipt the broker does not have yet."""
        with self._file.reading() as connection:
            query = "SELECT job_id FROM receipts WHERE told = 0 LIMIT ?"
            return [str(row[0]) for row in connection.execute(query, (limit,))]

    def note_told(self, job_id: str) -> None:
        """Note that the broker has the receipt of a job."""
        with self._file.writing() as connection:
            connection.execute("UPDATE receipts SET told = 1 WHERE job_id = ?", (job_id,))
