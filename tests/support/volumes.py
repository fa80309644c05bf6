"""Small disks of their own for tests: a tmpfs of a few megabytes, taken away afterwards.

Needs the right to mount; without it a desk skips and the machine that guards the branch fails.
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.tools import is_ci, require_tool

_CHUNK = bytes(64 * 1024)


@contextmanager
def small_volume(folder: Path, *, megabytes: int) -> Iterator[Path]:
    """Yield `folder` as the root of an empty file system of that size."""
    mount, umount = require_tool("mount"), require_tool("umount")
    folder.mkdir(parents=True, exist_ok=True)
    size = f"size={megabytes}m,mode=0700"
    done = subprocess.run(
        [mount, "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], capture_output=True, text=True
    )
    if done.returncode:
        if is_ci():
            pytest.fail(f"no small disk can be made, and this run must not skip: {done.stderr}")
        pytest.skip("nothing may be mounted here")
    try:
        yield folder
    finally:
        subprocess.run([umount, "--lazy", str(folder)], check=True, capture_output=True)


def fill(folder: Path, name: str = "filler") -> Path:
    """Write a file into `folder` until its disk takes no byte more; return the file."""
    path = folder / name
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        for chunk in (_CHUNK, b"x"):
            while _takes(descriptor, chunk):
                pass
    finally:
        os.close(descriptor)
    return path


def _takes(descriptor: int, chunk: bytes) -> bool:
    try:
        return os.write(descriptor, chunk) > 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
