"""One lock per repository, shared by every process on this machine that works on it.

The lock is a file in the repository's common git directory, because two listeners with two homes
may serve one repository. The kernel drops it when its holder dies, so there is no stale lock to
break. It is held around git's metadata alone (adding and removing worktrees, refs), never around
a checkout. It must never break or delete a lock of git's own.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from contracts.errors import RepositoryRefused, Unavailable

LOCK_NAME: Final = "fleet-dispatch.lock"
_FIRST_WAIT_S: Final = 0.005  # the lock is usually held for a few milliseconds
_LONGEST_WAIT_S: Final = 0.1


@contextmanager
def hold_repo_lock(common_dir: str, timeout_s: float) -> Iterator[None]:
    """Hold the lock of the repository whose common git directory is `common_dir`.

    Waits at most `timeout_s` seconds. Raises Unavailable when somebody else holds it for longer,
    and RepositoryRefused (`repo_unwritable`) when the lock file cannot be made.
    """
    path = os.path.join(common_dir, LOCK_NAME)
    descriptor = _open_lock_file(path)
    try:
        _wait_for_lock(descriptor, path, timeout_s)
        try:
            yield
        finally:
            _unlock(descriptor)
    finally:
        os.close(descriptor)


def _open_lock_file(path: str) -> int:
    # No O_NOFOLLOW on Windows; the mode is left to the umask, as git does with its own files,
    # so that two users who share a repository share its lock.
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        return os.open(path, flags, 0o666)
    except OSError as error:
        raise RepositoryRefused(
            f"the lock file {path} cannot be opened: {error.strerror}",
            code="repo_unwritable",
            remedy="give this user write access to the repository's git directory",
        ) from error


def _wait_for_lock(descriptor: int, path: str, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    wait_s = _FIRST_WAIT_S
    while not _try_lock(descriptor):
        if time.monotonic() >= deadline:
            raise Unavailable(
                f"another process has held {path} for {timeout_s:.0f} s",
                remedy="try again; if no fleet-dispatch process runs, a stopped one may hold it",
            )
        pause.wait(wait_s)
        wait_s = min(wait_s * 2, _LONGEST_WAIT_S)


def _try_lock(descriptor: int) -> bool:
    """Take the lock if nobody has it. EWOULDBLOCK on POSIX, EACCES or EDEADLOCK on Windows."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, 0, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _unlock(descriptor: int) -> None:
    """Give the lock up before the descriptor is closed, should a child have inherited it."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_UN)
