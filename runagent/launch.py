"""The read barrier: no agent is started on a prompt that cannot be read back.

Owns the staged prompt, from its making to its removal. A brief holds whatever its author wrote, so
the file is private (0600 in a 0700 directory, made anew, never through a link). Before every start,
the retry included, it is read back and compared; when that fails nothing is launched. An agent
that gets an empty brief answers politely, exits 0 and has done nothing: that is what this prevents.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contracts.errors import LaunchRefused

_NAME: Final = "prompt"


@dataclass(frozen=True, slots=True)
class StagedPrompt:
    """A prompt on disk, and the digest of what it must hold."""

    path: Path
    sha256: str

    def read_back(self) -> str:
        """Return the prompt as it stands on disk now.

        Raises LaunchRefused when it is missing, unreadable, no plain file, empty, or another.
        """
        try:
            data = _read_private(self.path)
        except OSError as error:
            raise LaunchRefused(
                f"the staged prompt cannot be read ({_reason(error)})",
                remedy="nothing was started; check the host's state directory and run it again",
            ) from error
        if not data or hashlib.sha256(data).hexdigest() != self.sha256:
            raise LaunchRefused(
                "the staged prompt is not what was staged",
                remedy="nothing was started; find out what writes to the host's state directory",
            )
        return data.decode("utf-8")


def make_private_directory(path: str) -> None:
    """Make the job's own directory `path` (absolute), for its owner alone.

    Raises LaunchRefused when it cannot be made or is something else already.
    """
    directory = Path(path)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if directory.is_symlink() or not directory.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "it is not a directory of ours")
        directory.chmod(0o700)
    except OSError as error:
        raise LaunchRefused(
            f"the job's directory cannot be made ({_reason(error)})",
            remedy="check space and permissions of the host's state directory",
        ) from error


@contextlib.contextmanager
def stage_prompt(task: str, runtime_dir: str) -> Iterator[StagedPrompt]:
    """Write `task` to a private file below `runtime_dir` (absolute; it exists) and remove it at the
    end, whatever happens. What a crash left there of an earlier try is removed first.

    Raises LaunchRefused when it cannot be written.
    """
    path = Path(runtime_dir) / _NAME
    data = task.encode("utf-8")
    try:
        path.unlink(missing_ok=True)
        _write_private(path, data)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        raise LaunchRefused(
            f"the prompt cannot be staged ({_reason(error)})",
            remedy="check space and permissions of the host's state directory",
        ) from error
    try:
        yield StagedPrompt(path, hashlib.sha256(data).hexdigest())
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def remove_staged(runtime_dir: str) -> None:
    """Remove the prompt that a run which was killed left in `runtime_dir`, if there is one."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(runtime_dir, _NAME))


def _write_private(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    flags |= getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _read_private(path: Path) -> bytes:
    # Without O_NONBLOCK a FIFO planted in its place would hold us for ever.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a plain file")
        return file.read()


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
