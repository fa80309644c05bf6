"""Removing a folder of ours without ever following a link that somebody planted in it.

`git worktree remove --force` follows such a link and empties what it leads to. Here a folder is
removed through the descriptor of its parent. It must never be given anything but a direct child
of a folder that we made.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
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
    finally:
        os.close(descriptor)


def remove_if_empty(folder: str) -> None:
    """Remove `folder` if it is an empty folder; leave it otherwise."""
    try:
        os.rmdir(folder)
    except OSError:
        return


def _keep_going(_function: Callable[..., object], _path: str, _error: _ExcInfo) -> None:
    """The second pass reports what the first could not remove."""
