"""What this sender signed: its own record, on its own disk.

A result counts only for a job that stands here, since it is bound to the exact bytes that were
signed. Each job is written before it is pushed, so no crash leaves a job whose result cannot be
checked. The signed envelope is kept until a result is there: a job that the broker lost is sent
again byte for byte. Never believes the broker.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import Final

from contracts.errors import Unavailable
from dispatch.private_files import FILE_MODE, check_private_folder, make_private_folder
from dispatch.sqlite_wal import switch_to_wal

_SCHEMA_VERSION: Final = 1
_BUSY_S: Final = 10.0  # another process of the same sender may be writing
_KEEP_S: Final = 90 * 86_400  # well beyond the 7 days of a job and the 7 of its result

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS sent (
    job_id TEXT PRIMARY KEY, aud TEXT NOT NULL, lane TEXT NOT NULL, kind TEXT NOT NULL,
    queue_name TEXT NOT NULL, sha256 TEXT NOT NULL, iat INTEGER NOT NULL, exp INTEGER NOT NULL,
    agent TEXT NOT NULL, ticket TEXT NOT NULL, repo TEXT NOT NULL, mode TEXT NOT NULL,
    envelope TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS results (
    job_id TEXT PRIMARY KEY REFERENCES sent(job_id) ON DELETE CASCADE,
    envelope TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS sent_by_time ON sent (iat);
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

    @property
    def target(self) -> str:
        """Return the host that the job is for, "" when any host of the lane may take it."""
        kind, _, name = self.aud.partition(":")
        return name if kind == "host" else ""


_COLUMNS: Final = ", ".join(item.name for item in fields(SentJob))
_MARKS: Final = ", ".join("?" for _ in fields(SentJob))


class SentJobs:
    """The record, opened anew for each call: safe from threads and from several processes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def record(self, jobs: Sequence[SentJob], *, now: float) -> None:
        """Write `jobs`, all or none, durably. Raises Unavailable when the disk says no."""
        with self._open() as connection, connection:
            connection.execute("DELETE FROM sent WHERE iat < ?", (int(now) - _KEEP_S,))
            connection.executemany(
                f"INSERT INTO sent ({_COLUMNS}) VALUES ({_MARKS})",  # noqa: S608 - both are constants
                [astuple(job) for job in jobs],
            )

    def find(self, job_id: str) -> SentJob | None:
        """Return the job that this sender signed under that id, None when there is none."""
        query = f"SELECT {_COLUMNS} FROM sent WHERE job_id = ?"  # noqa: S608 - a constant
        with self._open() as connection:
            row = connection.execute(query, (job_id,)).fetchone()
        return None if row is None else _job(row)

    def recent(self, limit: int) -> list[SentJob]:
        """Return at most `limit` jobs, newest first."""
        query = f"SELECT {_COLUMNS} FROM sent ORDER BY iat DESC, rowid DESC LIMIT ?"  # noqa: S608
        with self._open() as connection:
            return [_job(row) for row in connection.execute(query, (limit,))]

    def keep_result(self, job_id: str, envelope: str) -> str:
        """Keep the first verified result of a job and return the one that is kept.

        A later one never replaces it, whichever process came first.
        """
        with self._open() as connection, connection:
            connection.execute("INSERT OR IGNORE INTO results VALUES (?, ?)", (job_id, envelope))
            connection.execute("UPDATE sent SET envelope = '' WHERE job_id = ?", (job_id,))
            row = connection.execute(
                "SELECT envelope FROM results WHERE job_id = ?", (job_id,)
            ).fetchone()
        return str(row[0])

    def kept_result(self, job_id: str) -> str | None:
        """Return the first verified result of a job, None when there is none yet."""
        with self._open() as connection:
            row = connection.execute(
                "SELECT envelope FROM results WHERE job_id = ?", (job_id,)
            ).fetchone()
        return None if row is None else str(row[0])

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        make_private_folder(self._path.parent)
        check_private_folder(self._path.parent)
        try:
            # Made by us, so that SQLite's own files beside it take over the mode.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, FILE_MODE))
            with closing(sqlite3.connect(self._path, timeout=_BUSY_S)) as connection:
                switch_to_wal(connection)
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA foreign_keys = ON")
                if connection.execute("PRAGMA user_version").fetchone()[0] < _SCHEMA_VERSION:
                    connection.executescript(_SCHEMA)
                    connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise Unavailable(
                f"the record of sent jobs cannot be used: {self._path}",
                remedy="check the disk's space and the file's owner",
            ) from error


def _job(row: Sequence[object]) -> SentJob:
    names = [item.name for item in fields(SentJob)]
    return SentJob(**dict(zip(names, row, strict=True)))  # type: ignore[arg-type] # STRICT columns
