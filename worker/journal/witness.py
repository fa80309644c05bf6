"""The witness of the journal: one byte per claim, in a file that lives elsewhere.

A journal that knows fewer claims than its witness has bytes was lost or restored from an older
copy, and can no longer tell which jobs ran already. The file's own time is when the newest of these
jobs was issued. Appending is atomic between processes, so the witness needs no lock. It may miss
the last claim before a crash, never more.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


class Witness:
    """The count of claims outside the journal."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def count(self) -> int:
        """Return how many claims were ever seen; 0 when this host never claimed anything."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def newest(self) -> float:
        """Return when the newest of these was issued (Unix seconds); 0 when there is none."""
        try:
            return self._path.stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def add(self, issued_at: float, *, times: int = 1) -> None:
        """Note one more claim, or so many, of something that was issued at `issued_at`. A full disk
        is no reason to drop a job that is already claimed, so nothing is raised: the witness only
        knows a lost journal a little less well."""
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            newest = max(self.newest(), float(issued_at))
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            descriptor = os.open(self._path, flags, 0o600)
            try:
                os.write(descriptor, b"." * times)
                os.utime(self._path, (newest, newest))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
