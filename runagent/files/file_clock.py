"""The clock by which a file system stamps what is changed on it, read off a file without a name.

Two changes within one step of that clock look alike, so a look has to know how far the clock was
when it began; and where a file can be written through memory without any stamp (tmpfs stamps no
such write once the page was read), the clock proves nothing. It must leave nothing behind, and
never take the clock of another disk for this one.
"""

from __future__ import annotations

import mmap
import os
from typing import Final

NOTHING_PROVEN: Final = 0  # a time before that of every file
# Linux 3.11: the file is in no folder, so nobody sees it and no folder's times change.
_NAMELESS: Final = getattr(os, "O_TMPFILE", 0)


def read_clock_ns(folder: bytes, device: int) -> int | None:
    """Return the time that a change below `folder` would be stamped with now, in ns; None where the
    system or the file system cannot tell, or `folder` is not on the disk `device`; NOTHING_PROVEN
    where not every change is stamped, or that cannot be found out."""
    if not _NAMELESS:
        return None
    flags = os.O_RDWR | _NAMELESS | os.O_CLOEXEC
    try:
        descriptor = os.open(folder or b".", flags, 0o600)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if found.st_dev != device:
            return None
        return found.st_ctime_ns if _stamps_mapped_writes(descriptor) else NOTHING_PROVEN
    finally:
        os.close(descriptor)


def _stamps_mapped_writes(descriptor: int) -> bool:
    """Say whether a write through memory moves the time of the empty file. The kernel reads and
    writes that memory for us: on a disk that is full it then answers with an error, where a touch
    of ours would be the end of this process."""
    reader, writer = os.pipe()
    try:
        os.write(descriptor, b"\0")
        with mmap.mmap(descriptor, 1) as page, memoryview(page) as memory:
            os.utime(descriptor, ns=(0, 0))
            os.writev(writer, [memory])  # the page is there now, and on some for writing too
            os.readv(reader, [memory])
            return os.fstat(descriptor).st_mtime_ns != 0
    except OSError:
        return False
    finally:
        os.close(reader)
        os.close(writer)
