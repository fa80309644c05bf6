"""The reserve: room on the state folder's disk that is taken in good time and given back when that
disk is full, so that what is owed can still be written down.

One file of a fixed size per state folder, shared by every process that uses the folder. Who needs
to write an end calls `lend`; who is about to start something calls `hold` first. Never deletes
anything but this one file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from contracts import limits
from contracts.errors import DiskFull
from dispatch.private_files import is_full_disk, make_private_folder

_T = TypeVar("_T")
# One result at its largest takes 4 MiB: itself (1) and its signed envelope (base64 of a JSON text,
# 3 at most). SQLite writes that row into its log twice, with the result and when it is published,
# and once into the file; 4 MiB more are for the pages around it. A test fills it with one.
RESERVE_BYTES: Final = 16 * limits.RESULT_MAX_BYTES
_CHUNK: Final = bytes(64 * 1024)


class Reserve:
    """The reserve of one state folder; safe to share between threads."""

    def __init__(self, folder: Path, *, size_bytes: int = RESERVE_BYTES) -> None:
        """Take nothing yet."""
        self._path = folder / "reserve"
        self._size_bytes = size_bytes
        self._lock = threading.Lock()

    @property
    def path(self) -> Path:
        """Return where the file is."""
        return self._path

    @property
    def is_held(self) -> bool:
        """Say whether the room is taken now."""
        try:
            return self._path.stat().st_size >= self._size_bytes
        except OSError:
            return False

    def hold(self) -> bool:
        """Take the room if it is not taken; say whether this disk has room for an end of a job.

        False means full. A folder that cannot be written for another reason is not: whoever writes
        there next says why.
        """
        with self._lock:
            if self.is_held:
                return True
            try:
                make_private_folder(self._path.parent)
                self._take()
            except DiskFull:
                return False
            except OSError as error:
                self._give_back()
                return not is_full_disk(error)
            return True

    def lend(self, act: Callable[[], _T]) -> _T:
        """Return what `act` returns; if the disk is full for it, give the room back and do it once
        more, also where the room was given back before: whoever tried to take it again meanwhile
        had the rest of the disk for that moment. Raises what `act` raises."""
        try:
            return act()
        except DiskFull:
            with self._lock:
                self._give_back()
                return act()

    def _take(self) -> None:
        """Fill the file with real blocks; what fails half-way leaves nothing.

        Where the room is plainly not there nothing is tried: a try takes what others need now.
        """
        if shutil.disk_usage(self._path.parent).free < self._size_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(self._path, flags, 0o600)
        with open(descriptor, "r+b") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, self._size_bytes)
            else:
                file.writelines(_CHUNK for _ in range(0, self._size_bytes, len(_CHUNK)))

    def _give_back(self) -> None:
        """Remove the file, where it is there."""
        with contextlib.suppress(OSError):
            self._path.unlink()
