"""Files and folders that are their owner's alone: made so, checked so, replaced in one step.

POSIX: folders 0700, files 0600, owned by the user who runs us; anything else is refused with the
command that mends it. Windows has no such modes: there the profile folder's own access list is
what protects, and `PERMISSIONS_NOTE` says so. Never follows a link to a file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
import threading
from pathlib import Path
from typing import Final

from contracts.errors import DiskFull, KeysRefused, Unavailable

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_MAKING: Final = threading.Lock()  # nobody locks a file before who made it has closed it
_FILE_MAX_BYTES: Final = 1024 * 1024
PERMISSIONS_NOTE: Final = (
    "file modes are not checked on Windows: the access list of the profile folder protects them"
    if sys.platform == "win32"
    else ""
)


def is_full_disk(error: OSError) -> bool:
    """Say whether `error` means that a disk, or its owner's share of it, is full."""
    return error.errno in _NO_ROOM


def unwritten(what: str, error: OSError, *, remedy: str) -> Unavailable:
    """Return what is raised when the disk says no: DiskFull when it is full."""
    if is_full_disk(error):
        return DiskFull(f"{what}: ENOSPC, {error.strerror}", remedy="free space on that disk")
    return Unavailable(f"{what}: {error.strerror}", remedy=remedy)


def make_private_folder(path: Path) -> bool:
    """Make `path` and its missing parents, each 0700; say whether `path` is new.

    Raises Unavailable when that is not possible.
    """
    if path.exists():
        return False
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        for folder in reversed(missing):
            folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
    except OSError as error:
        what, remedy = f"cannot make the folder {path}", "check its parent folder"
        raise unwritten(what, error, remedy=remedy) from error
    return bool(missing)


def make_private_file(path: Path) -> None:
    """Make an empty file of ours alone (0600) unless something is there. Raises OSError.

    What is there is never opened: closing it would give up every lock that this process has on it,
    and SQLite in another process would then take away the log that is still to be written.
    """
    with _MAKING, contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE))


def check_private_folder(path: Path) -> None:
    """Raise KeysRefused unless `path` is a folder of ours that nobody else may enter."""
    try:
        status = path.stat()
    except OSError as error:
        raise KeysRefused(
            f"{path} cannot be read: {error.strerror}", code="missing", remedy="fleet-dispatch init"
        ) from error
    if not stat.S_ISDIR(status.st_mode):
        raise KeysRefused(f"{path} is not a folder", code="permissions", remedy="move it away")
    _check_status(path, status, FOLDER_MODE)


def keep_private_folder(path: Path) -> None:
    """Make `path` where it is not there, and check that it is ours alone. Raises what
    `make_private_folder` and `check_private_folder` raise."""
    try:
        status = os.stat(path)
    except OSError:
        make_private_folder(path)
        check_private_folder(path)
        return
    if not stat.S_ISDIR(status.st_mode):
        raise KeysRefused(f"{path} is not a folder", code="permissions", remedy="move it away")
    _check_status(path, status, FOLDER_MODE)


def read_private_file(path: Path, *, max_bytes: int = _FILE_MAX_BYTES) -> bytes:
    """Return the bytes of `path`, checked on the open descriptor and not by name.

    Raises KeysRefused when it is no plain file, not ours, readable by others or too large, and
    FileNotFoundError when it is not there.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # a FIFO must not hang us
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise KeysRefused(
            f"{path} cannot be opened: {error.strerror}",
            code="permissions",
            remedy="make it a plain file of yours",
        ) from error
    try:
        _check_plain_file(path, os.fstat(descriptor))
    except KeysRefused:
        os.close(descriptor)
        raise
    with open(descriptor, "rb") as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise KeysRefused(f"{path} is larger than {max_bytes} bytes", code="malformed")
    return data


def write_private_file(path: Path, data: bytes, *, replace: bool) -> None:
    """Write `data` to `path`, 0600, so that a reader sees all of it or nothing.

    A temporary file beside it is created exclusively, flushed to disk and renamed. With `replace`
    false an existing file is left alone and FileExistsError is raised. Raises Unavailable when the
    disk says no.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        _write_new(beside, data)
        if replace or not hasattr(os, "link"):
            if not replace and path.exists():
                raise FileExistsError(str(path))
            beside.replace(path)
        else:
            os.link(beside, path)  # the one call that fails when the name is taken
        _flush_folder(path.parent)
    except FileExistsError:
        raise
    except OSError as error:
        remedy = "check its folder's permissions"
        raise unwritten(f"cannot write {path}", error, remedy=remedy) from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()


def _write_new(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    flags |= getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, FILE_MODE)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _flush_folder(path: Path) -> None:
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_plain_file(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise KeysRefused(f"{path} is no plain file", code="permissions", remedy="replace it")
    _check_status(path, status, FILE_MODE)


def _check_status(path: Path, status: os.stat_result, mode: int) -> None:
    if sys.platform == "win32":
        return
    if status.st_uid != os.geteuid():
        raise KeysRefused(
            f"{path} belongs to another user", code="permissions", remedy=f"chown it: {path}"
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise KeysRefused(
            f"{path} can be reached by other users",
            code="permissions",
            remedy=f"chmod {mode:o} {path}",
        )
