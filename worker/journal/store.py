"""The file behind the journal: opened privately, written in whole transactions, errors translated.

One connection a process, guarded by a lock; other processes wait for each other inside SQLite.
Knows nothing of jobs.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from contracts.errors import CouldNotCheck, DiskFull, FleetError, Unavailable
from dispatch.private_files import make_private_file, make_private_folder, unwritten
from dispatch.sqlite_wal import primary_code, switch_to_wal
from runagent.disk_floor import free_bytes
from worker.journal.schema import migrate

# Writers of one machine hold the file for milliseconds; who waits this long stands behind a fault.
BUSY_TIMEOUT_S: Final = 15.0
_INDEX_BYTES: Final = 64 * 1024  # SQLite's shared index grows by 32 KiB, and a page is 4 KiB
_UNSOUND: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_REMEDIES: Final = {
    sqlite3.SQLITE_READONLY: ("it is read-only", "make the state folder writable for this user"),
    sqlite3.SQLITE_CANTOPEN: (
        "it cannot be opened",
        "make the state folder writable for this user",
    ),
    sqlite3.SQLITE_BUSY: ("it stays locked", "end the process that holds it"),
}
_OTHER_FAULT: Final = (
    "the disk does not answer as it should",
    "check the disk of the state folder",
)


class JournalFile:
    """One open journal file; safe to share between threads.

    Everything may raise Unavailable (disk full, read-only, locked too long) or CouldNotCheck
    (not a sound journal), with the remedy.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the file at `path` (0600, its folder 0700) with the newest schema."""
        self.path = path
        self._lock = threading.RLock()
        with _translated(path):
            _create_privately(path)
            self._connection = _connect(path)
            try:
                migrate(self._connection)
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        """Close the file; it may not be used afterwards."""
        with self._lock:
            self._connection.close()

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection for queries."""
        with self._lock, _translated(self.path):
            yield self._connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection for one transaction, on disk when the block ends without error."""
        with self._lock, _translated(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


def _create_privately(path: Path) -> None:
    make_private_folder(path.parent)
    make_private_file(path)
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    connection.row_factory = sqlite3.Row
    try:
        switch_to_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except FleetError:
        raise
    except sqlite3.DatabaseError as error:
        if primary_code(error) in _UNSOUND:
            raise CouldNotCheck(
                f"the journal {path} is damaged",
                remedy="move it aside; jobs issued before the new one are then refused",
            ) from error
        if _is_full(error, path):
            raise DiskFull(
                f"the journal {path} cannot be written: ENOSPC, the disk is full",
                remedy="free space on the disk of the state folder",
            ) from error
        what, remedy = _REMEDIES.get(primary_code(error), _OTHER_FAULT)
        raise Unavailable(f"the journal {path} cannot be used: {what}", remedy=remedy) from error
    except OSError as error:
        remedy = "make the state folder writable for this user"
        raise unwritten(f"the journal {path} cannot be used", error, remedy=remedy) from error


def _is_full(error: sqlite3.Error, path: Path) -> bool:
    """Say whether a full disk is behind `error`: SQLite says so, or an I/O error while there is no
    room (its shared index cannot grow)."""
    code = primary_code(error)
    if code != sqlite3.SQLITE_IOERR:
        return code == sqlite3.SQLITE_FULL
    free = free_bytes(str(path.parent))
    return free is not None and free < _INDEX_BYTES
