"""Changes of a file that move none of its times."""

from __future__ import annotations

import mmap
from pathlib import Path


def write_unstamped(path: Path, data: bytes) -> None:
    """Write over the first bytes of a file on a tmpfs through memory that was read before."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as page:
        assert page[0] is not None
        page[: len(data)] = data


# An agent's act: the blocks of a file of its own and of `a.txt` change places. It prints MOVED when
# the file system did that, and leaves nothing else behind.
MOVE_BLOCKS = """
import fcntl, os, struct
with open("mine", "wb") as mine:
    mine.write(b"x" * os.path.getsize("a.txt"))
    mine.flush()
    os.fsync(mine.fileno())
with open("mine", "r+b") as mine, open("a.txt", "r+b") as theirs:
    os.fsync(theirs.fileno())
    os.posix_fadvise(theirs.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    order = bytearray(struct.pack("=IIQQQQ", 0, theirs.fileno(), 0, 0, 1, 0))
    try:
        fcntl.ioctl(mine, 0xC028660F, order)  # EXT4_IOC_MOVE_EXT
    except OSError as error:
        print("REFUSED", error.errno)
    else:
        print("MOVED", struct.unpack("=IIQQQQ", order)[-1])
os.unlink("mine")
"""
