"""Connections to one SQLite file that are kept between uses, so that a use costs no opening and no
checkpoint at its close.

A connection is in one pair of hands at a time; threads that overlap get one each. A process that
was forked leaves its parent's alone, and a file that was replaced is opened anew.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections import deque
from pathlib import Path
from typing import Final, NamedTuple

_IDLE_MAX: Final = 4  # more threads than that seldom write at once; the rest are closed after use


class Kept(NamedTuple):
    """A connection, and which file (device and inode) it has open."""

    connection: sqlite3.Connection
    file: tuple[int, int]


_Idle = deque[Kept]
# What a fork brought along: SQLite forbids its use and its end in any process but the first.
_INHERITED: Final[list[_Idle]] = []


class KeptConnections:
    """The idle connections to the file at `path`; closed with `close`, or when nobody holds it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start()

    def take(self) -> Kept | None:
        """Return an idle connection to the file that is there now, None when one must be opened."""
        if self._owner != os.getpid():
            _INHERITED.append(self._idle)
            self._start()
        try:
            file = identity(os.stat(self._path))
        except OSError:
            self.close()
            return None
        while (kept := _pop(self._idle)) is not None:
            if kept.file == file:
                return kept
            kept.connection.close()
        return None

    def give_back(self, kept: Kept) -> None:
        """Keep a connection for the next use; it must be in no transaction."""
        if len(self._idle) < _IDLE_MAX:
            self._idle.append(kept)
        else:
            kept.connection.close()

    def close(self) -> None:
        """Close what is idle. A later use opens again."""
        _close_all(self._idle, self._owner)

    def _start(self) -> None:
        self._idle: _Idle = deque()
        self._owner = os.getpid()
        weakref.finalize(self, _close_all, self._idle, self._owner)


def identity(status: os.stat_result) -> tuple[int, int]:
    """Return what tells a file from the one that takes its name."""
    return status.st_dev, status.st_ino


def _close_all(idle: _Idle, owner: int) -> None:
    while os.getpid() == owner and (kept := _pop(idle)) is not None:
        kept.connection.close()


def _pop(idle: _Idle) -> Kept | None:
    try:
        return idle.pop()
    except IndexError:
        return None
