"""The keys folder of a program that runs for long: what changes in it counts within a second.

A value read from the folder is read again when any key file came, went or changed. What cannot be
read then is refused, until it can be: a key whose revocation we may have missed signs nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from contracts.clock import Clock
from contracts.errors import KeysRefused

LOOK_EVERY_S: Final = 0.25  # a quarter of the second within which a revocation must count

_T = TypeVar("_T")
_Stamp = tuple[tuple[str, int, int, int], ...]


class KeyFolder(Generic[_T]):
    """What `read` returns of a keys folder, kept in step with it. Safe to use from threads."""

    def __init__(self, path: Path, read: Callable[[Path], _T], clock: Clock) -> None:
        """Read once. Raises what `read` raises."""
        self.path = path
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._stamp: _Stamp | None = _stamp_of(path)  # before the read: a change meanwhile is seen
        self._value = read(path)
        self._refusal: KeysRefused | None = None
        self._look_at = clock.monotonic() + LOOK_EVERY_S

    def value(self) -> _T:
        """Return what the folder holds, at most `LOOK_EVERY_S` old. Raises KeysRefused while a
        file in it is malformed or not ours alone."""
        with self._lock:
            now = self._clock.monotonic()
            if now >= self._look_at:
                self._look_at = now + LOOK_EVERY_S
                self._look()
            if self._refusal is not None:
                raise self._refusal
            return self._value

    def look_again(self) -> None:
        """Forget when the folder was looked at last: we have just written to it ourselves."""
        with self._lock:
            self._look_at = self._clock.monotonic()

    def _look(self) -> None:
        stamp = _stamp_of(self.path)
        if stamp == self._stamp and self._refusal is None:
            return
        try:
            self._value = self._read(self.path)
        except KeysRefused as error:
            self._refusal = error
        except FileNotFoundError:  # replaced as we read: the next look finds what it is now
            self._stamp = None
        else:
            self._stamp, self._refusal = stamp, None


def _stamp_of(path: Path) -> _Stamp | None:
    """Return name, inode and times of every key file: each way to change one changes it."""
    try:
        with os.scandir(path) as entries:
            found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    except OSError:
        return None  # gone, or as we looked: it is read again, and that says what is wrong
    mine = [(name, status) for name, status in found if name.endswith(".json")]
    return tuple(sorted((n, s.st_ino, s.st_mtime_ns, s.st_ctime_ns) for n, s in mine))
