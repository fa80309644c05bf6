"""Removing and moving a folder of ours without ever following a link that somebody planted.

`git worktree remove --force` follows such a link and empties what it leads to. Here a folder is
reached through the descriptor of its parent. It must never be given anything but a direct child
of a folder that we made.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from types import TracebackType

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType]


def remove_child(parent: str, name: str) -> None:
    """Remove the folder `name` directly below `parent`; links in it are removed, not followed.

    Does nothing when it is not there. A folder whose own mode keeps us out is opened first.
    Raises OSError when something of it stays.
    """
    if name in ("", ".", "..") or os.path.basename(name) != name:
        raise ValueError("the name of a direct child is needed")
    if not os.path.lexists(os.path.join(parent, name)):
        return
    if not shutil.rmtree.avoids_symlink_attacks:  # no descriptors here: a link is refused instead
        shutil.rmtree(os.path.join(parent, name))
        return
    flags = os.O_RDONLY | os.O_DIRECTORY | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(parent, flags)
    try:
        shutil.rmtree(name, onerror=_keep_going, dir_fd=descriptor)
        if os.path.lexists(os.path.join(parent, name)):
            shutil.rmtree(name, dir_fd=descriptor)
    except RecursionError as error:
        told = "folders stand too deep in it; rm -r takes them"
        raise OSError(errno.ENAMETOOLONG, told, os.path.join(parent, name)) from error
    finally:
        os.close(descriptor)


def move_child(
    parent: str, name: str, new_parent: str, new_name: str, *, identity: str = ""
) -> None:
    """Move the folder `name` directly below `parent` to `new_name` directly below `new_parent`, on
    one volume. Neither parent is followed if it is a link, and the folder must be one: with
    `identity`, the very one that had this inode when it was made.

    Raises OSError: FileExistsError when something stands at the new place.
    """
    with _opened(parent) as source, _opened(new_parent) as target:
        found = os.stat(_at(parent, name, source), dir_fd=source, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "is not a folder", os.path.join(parent, name))
        if identity and str(found.st_ino) != identity:
            told = "is not the folder that was made there"
            raise OSError(errno.ESTALE, told, os.path.join(parent, name))
        if os.path.lexists(os.path.join(new_parent, new_name)):
            raise FileExistsError(errno.EEXIST, "exists", os.path.join(new_parent, new_name))
        old, new = _at(parent, name, source), _at(new_parent, new_name, target)
        try:
            os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)
        except PermissionError:
            # A folder changes its parent only when it may be written to itself.
            os.chmod(old, stat.S_IMODE(found.st_mode) | stat.S_IRWXU, dir_fd=source)
            os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)


def remove_if_empty(folder: str) -> None:
    """Remove `folder` if it is an empty folder; leave it otherwise."""
    try:
        os.rmdir(folder)
    except OSError:
        return


@contextlib.contextmanager
def _opened(folder: str) -> Iterator[int | None]:
    """Yield a descriptor of `folder`, which must not be a link; None where there is no such way."""
    if os.rename not in os.supports_dir_fd:
        if os.path.islink(folder):
            raise NotADirectoryError(errno.ENOTDIR, "is a link", folder)
        yield None
        return
    flags = os.O_RDONLY | os.O_DIRECTORY | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(folder, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _at(parent: str, name: str, descriptor: int | None) -> str:
    return os.path.join(parent, name) if descriptor is None else name


def _keep_going(_function: Callable[..., object], _path: str, _error: _ExcInfo) -> None:
    """The second pass reports what the first could not remove."""
