"""The file of the sender's own record: opening it, its schema, and the steps to the newest one.

SQLite in WAL, private to its owner; threads and several processes may use it. What is written is on
the disk itself unless the writer says that the system's memory will do. Knows no meaning of a row.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from contracts.errors import Unavailable
from dispatch.kept_connections import Kept, KeptConnections, identity
from dispatch.private_files import keep_private_folder, make_private_file
from dispatch.sqlite_wal import switch_to_wal

_BUSY_S: Final = 10.0  # another process of the same sender may be writing
# Of 4 KiB. SQLite's own 1,000 are one batch of many jobs: each would be moved to its place, with
# two flushes of the disk, before the next one is signed. At most 16 MiB beside the file meanwhile.
_CHECKPOINT_PAGES: Final = 4_000
_UNFLUSHED: Final = "PRAGMA synchronous = NORMAL"  # between two uses: many need no more
KEEP_S: Final = 90 * 86_400  # well beyond the 7 days of a job and the 7 of its result

_FIRST: Final = """
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
# What came of the push, our own ends of jobs, and the keys under which jobs are sent once.
_SECOND: Final = """
ALTER TABLE sent ADD COLUMN broker TEXT NOT NULL DEFAULT '';
ALTER TABLE sent ADD COLUMN pushed_at INTEGER;
ALTER TABLE sent ADD COLUMN give_up_at INTEGER;
ALTER TABLE sent ADD COLUMN pushes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sent ADD COLUMN tried_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sent ADD COLUMN looked_at INTEGER NOT NULL DEFAULT 0;
CREATE TABLE receipts (
    job_id TEXT PRIMARY KEY REFERENCES sent(job_id) ON DELETE CASCADE,
    envelope TEXT NOT NULL, told INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE keys (
    sender TEXT NOT NULL, name TEXT NOT NULL, asked TEXT NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (sender, name)
) STRICT;
CREATE TABLE keyed (
    sender TEXT NOT NULL, name TEXT NOT NULL, place INTEGER NOT NULL,
    job_id TEXT NOT NULL REFERENCES sent(job_id) ON DELETE CASCADE,
    PRIMARY KEY (sender, name, place)
) STRICT;
CREATE INDEX keyed_by_job ON keyed (job_id);
"""
# Jobs that this sender takes back, until they have an end: the signed cancel is sent again.
_THIRD: Final = """
CREATE TABLE cancels (
    job_id TEXT PRIMARY KEY REFERENCES sent(job_id) ON DELETE CASCADE,
    why TEXT NOT NULL, at INTEGER NOT NULL, envelope TEXT NOT NULL, signed_at INTEGER NOT NULL
) STRICT;
"""
# Jobs that were sent to a host's own door.
_FOURTH: Final = """
ALTER TABLE sent ADD COLUMN url TEXT NOT NULL DEFAULT '';
ALTER TABLE sent ADD COLUMN cacert TEXT NOT NULL DEFAULT '';
ALTER TABLE sent ADD COLUMN door_host TEXT NOT NULL DEFAULT '';
"""
# Jobs are remembered for 90 days, and every sweep looks for the few whose end is open: it reads
# these alone. A process of an older version leaves the mark out, so an end counts without it, too.
_FIFTH: Final = """
ALTER TABLE sent ADD COLUMN has_end INTEGER NOT NULL DEFAULT 0;
UPDATE sent SET has_end = 1 WHERE job_id IN (SELECT job_id FROM results)
    OR job_id IN (SELECT job_id FROM receipts);
CREATE INDEX sent_open ON sent (looked_at, iat) WHERE has_end = 0;
CREATE INDEX keys_by_time ON keys (at);
CREATE INDEX receipts_untold ON receipts (job_id) WHERE told = 0;
"""
_STEPS: Final = (_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH)


class SentFile:
    """One file; nothing is opened before it is used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder = path.parent
        self._kept = KeptConnections(path, self._connect)

    def close(self) -> None:
        """Close what is kept open. A later use opens again."""
        self._kept.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection for reading. Raises Unavailable when the disk says no."""
        with self._open() as connection:
            yield connection

    @contextmanager
    def writing(self, *, outlives_power: bool = True) -> Iterator[sqlite3.Connection]:
        """Yield a connection inside one transaction, on disk when the block has ended.

        No other writer comes between its reads and its writes. Without `outlives_power` it is
        written and not flushed: it outlives the death of every process, and a power cut may take
        it, together with all that was written after it. Raises Unavailable.
        """
        with self._open() as connection:
            if outlives_power:
                connection.execute("PRAGMA synchronous = FULL")
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
            if outlives_power:
                connection.execute(_UNFLUSHED)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        keep_private_folder(self._folder)
        try:
            with self._kept.lent() as connection:
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise Unavailable(
                f"the record of sent jobs cannot be used: {self._path}",
                remedy="check the disk's space and the file's owner",
            ) from error

    def _connect(self) -> Kept:
        # Made by us, so that SQLite's own files beside it take over the mode.
        make_private_file(self._path)
        file = identity(os.stat(self._path))  # before: a file that is replaced now is opened anew
        # One thread at a time has it, and not always the same one.
        connection = sqlite3.connect(self._path, timeout=_BUSY_S, check_same_thread=False)
        try:
            switch_to_wal(connection)
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            _bring_up_to_date(connection)
            connection.execute(_UNFLUSHED)
        except BaseException:
            connection.close()
            raise
        return Kept(connection, file)


def _bring_up_to_date(connection: sqlite3.Connection) -> None:
    if _version(connection) >= len(_STEPS):
        return
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        for step in _STEPS[_version(connection) :]:  # another process may have been faster
            for statement in step.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {max(_version(connection), len(_STEPS))}")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
