"""Connections to one SQLite file that are kept between uses, so that a use costs no opening and no
checkpoint at its close.

A connection is in one pair of hands at a time; threads that overlap get one each. A file that was
replaced is opened anew. A process forks with nothing open: what SQLite knows of its locks would be
taken along and the locks would not, and whichever of the two closed the file first would take the
other's log away.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

_IDLE_MAX: Final = 4  # more threads than that seldom write at once; the rest are closed after use
# Longer than a use lasts that waits for another process's write. A fork goes on after that, and its
# child is refused the file.
_FORK_WAITS_S: Final = 30.0


class Kept(NamedTuple):
    """A connection, and which file (device and inode) it has open."""

    connection: sqlite3.Connection
    file: tuple[int, int]


_Idle = deque[Kept]


class _Uses:
    """How many connections this process has in use, and the forks that wait until none is."""

    def __init__(self) -> None:
        self.count = 0
        self._all: weakref.WeakSet[KeptConnections] = weakref.WeakSet()
        self._changed = threading.Condition()
        self._is_forking = False
        self._waiting = 0  # forks
        self._own = threading.local()

    def know(self, kept: KeptConnections) -> None:
        """Close what `kept` has idle before each fork."""
        with self._changed:
            self._all.add(kept)

    def begin(self) -> None:
        """Count one more, once no fork is under way or waits for its turn: busy threads would never
        let it have one. A thread that has a use already goes on, since the fork waits for that."""
        with self._changed:
            if not self._depth:
                self._changed.wait_for(lambda: not self._waiting)
            self._own.depth = self._depth + 1
            self.count += 1

    def end(self) -> None:
        """Count one less."""
        with self._changed:
            self._own.depth = self._depth - 1
            self.count -= 1
            self._changed.notify_all()

    @property
    def _depth(self) -> int:
        """Return how many uses this thread has."""
        return int(getattr(self._own, "depth", 0))

    def before_fork(self) -> None:
        """Wait for the uses that are under way, close what is idle, and let none begin."""
        self._changed.acquire()
        is_free = False
        self._waiting += 1
        try:
            is_free = self._changed.wait_for(lambda: self.count == 0, _FORK_WAITS_S)
        finally:  # a Ctrl-C stops the wait, and never the fork
            self._waiting -= 1
            self._is_forking = True  # not before: another thread may fork while this one waits
        if is_free:
            for kept in self._all:
                kept.close()

    def after_fork(self) -> None:
        """Let uses begin again, in either process."""
        if self._is_forking:
            self._is_forking = False
            self._changed.notify_all()
            self._changed.release()

    def after_fork_in_child(self) -> None:
        """Let uses begin again in a child: the forks that waited were other threads'."""
        self._waiting = 0
        self.after_fork()


_USES: Final = _Uses()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_USES.before_fork,
        after_in_parent=_USES.after_fork,
        after_in_child=_USES.after_fork_in_child,
    )


class KeptConnections:
    """The idle connections to the file at `path`; closed with `close`, or when nobody holds it."""

    def __init__(self, path: Path, connect: Callable[[], Kept]) -> None:
        """`connect` opens one more."""
        self._path = path
        self._connect = connect
        self._start()
        _USES.know(self)

    @contextmanager
    def lent(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection to the file that is there now; at the end it must be in no
        transaction. After an error it is closed, whatever it is in the middle of.

        Raises what opening it raises, and sqlite3.OperationalError in a process that was forked
        while its parent had the file open.
        """
        _USES.begin()
        try:
            self._check_owner()
            kept = self._take() or self._connect()
            try:
                yield kept.connection
            except BaseException:
                kept.connection.close()
                raise
            self._give_back(kept)
        finally:
            _USES.end()

    def close(self) -> None:
        """Close what is idle. A later use opens again."""
        _close_all(self._idle, self._owner)

    def _check_owner(self) -> None:
        if self._owner == os.getpid():
            return
        if self._idle or _USES.count > 1:  # ours is one
            raise sqlite3.OperationalError("forked while the parent had the file open")
        self._start()

    def _take(self) -> Kept | None:
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

    def _give_back(self, kept: Kept) -> None:
        if len(self._idle) < _IDLE_MAX:
            self._idle.append(kept)
        else:
            kept.connection.close()

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
