"""Switching a SQLite file to its write-ahead log while other processes do the same.

The switch is the one statement that ignores SQLite's own busy timeout.
"""

from __future__ import annotations

import sqlite3
import threading
from typing import Final

_ATTEMPTS: Final = 200
_PAUSE_S: Final = 0.05
# An extended result code of SQLite carries the primary one in its low byte.
_PRIMARY_CODE: Final = 0xFF


def switch_to_wal(connection: sqlite3.Connection) -> None:
    """Switch the file behind `connection` to WAL; raises what SQLite raises after 10 s."""
    pause = threading.Event()
    for attempt in range(_ATTEMPTS):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if primary_code(error) != sqlite3.SQLITE_BUSY or attempt == _ATTEMPTS - 1:
                raise
            pause.wait(_PAUSE_S)


def primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code, 0 for an error that carries none."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & _PRIMARY_CODE if isinstance(code, int) else 0
