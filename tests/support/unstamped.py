"""Changes of a file that move none of its times."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MEMORY_DISK = Path("/dev/shm")


@contextmanager
def tmpfs_folder() -> Iterator[Path]:
    """Yield a fresh folder on a tmpfs; skip the test where there is none."""
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    if not any(line.split()[1:3] == [str(MEMORY_DISK), "tmpfs"] for line in mounts):
        pytest.skip("no tmpfs at /dev/shm")
    with tempfile.TemporaryDirectory(dir=MEMORY_DISK) as folder:
        yield Path(folder)


def write_unstamped(path: Path, data: bytes) -> None:
    """Write over the first bytes of a file on a tmpfs through memory that was read before."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as page:
        assert page[0] is not None
        page[: len(data)] = data
