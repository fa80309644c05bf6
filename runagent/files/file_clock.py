"""The clock by which a file system stamps what is changed on it, read off a file without a name.

Two changes within one step of that clock look alike, so a look has to know how far the clock was
when it began. It must leave nothing behind, and never take the clock of another disk for this one.
"""

from __future__ import annotations

import os
from typing import Final

# Linux 3.11: the file is in no folder, so nobody sees it and no folder's times change.
_NAMELESS: Final = getattr(os, "O_TMPFILE", 0)


def read_clock_ns(folder: bytes, device: int) -> int | None:
    """Return the time that a change below `folder` would be stamped with now, in ns; None where the
    system or the file system cannot tell, or `folder` is not on the disk `device`."""
    if not _NAMELESS:
        return None
    flags = os.O_WRONLY | _NAMELESS | os.O_CLOEXEC
    try:
        descriptor = os.open(folder or b".", flags, 0o600)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return found.st_ctime_ns if found.st_dev == device else None
