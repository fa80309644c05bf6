"""The repository's git directory as the box shows it: own refs and objects, the rest for reading.

The agent commits into private objects, moves private refs, and its worktree's git directory is a
private copy; hooks, config and every other file are the real ones, read-only. So nothing that it
does to git is anybody else's until the host takes it. It must never write to the real directory.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from typing import Final

from runagent.sandbox.mounts import Mount, read_only, writable
from runagent.trees.worktree import Worktree

# Git's own state of the main checkout and of all worktrees, which the box has its own of.
_OWN: Final = frozenset(
    {
        *("objects", "refs", "logs", "packed-refs", "worktrees", "HEAD", "index"),
        *("FETCH_HEAD", "ORIG_HEAD", "COMMIT_EDITMSG", "gc.pid", "fleet-dispatch.lock"),
    }
)
_COPIED: Final = ("HEAD", "packed-refs")


@dataclass(frozen=True, slots=True)
class GitLayer:
    """The private git directory `folder` of a box, and `store`, where the box shows the real
    objects. On the host `store` is an empty folder."""

    folder: str
    store: str
    worktree: Worktree

    @property
    def objects(self) -> str:
        """Return the folder of the private objects."""
        return os.path.join(self.folder, "objects")

    @property
    def admin_dir(self) -> str:
        """Return the private copy of the worktree's own git directory."""
        return os.path.join(self.folder, "worktrees", os.path.basename(self.worktree.admin_dir))

    @property
    def alternates(self) -> list[str]:
        """Return the real folders of objects that the private ones stand on."""
        objects = os.path.join(self.worktree.common_dir, "objects")
        found = [objects]
        for folder in found:  # grows while it is walked: what is borrowed may borrow
            found += [path for path in _alternates_of(folder) if path not in found]
        return found


def make_git_layer(layer: GitLayer) -> None:
    """Make the private git directory. Raises OSError."""
    common = layer.worktree.common_dir
    for folder in ("objects/info", "objects/pack", "refs/heads", "logs", "worktrees"):
        os.makedirs(os.path.join(layer.folder, folder), mode=0o700, exist_ok=True)
    os.makedirs(layer.store, mode=0o700, exist_ok=True)
    # Loose refs first: an owner's `git pack-refs` writes the packed file before it removes them.
    copy_plain_files(os.path.join(common, "refs"), os.path.join(layer.folder, "refs"))
    copy_plain_files(layer.worktree.admin_dir, layer.admin_dir)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(layer.admin_dir, "locked"))  # the host's mark on the real one
    for name in _COPIED:
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(os.path.join(common, name), os.path.join(layer.folder, name))
    seen_in_box = [layer.store, *layer.alternates[1:]]
    write_alternates(layer.objects, seen_in_box)


def show_to_host(shadow_dir: str, layer: GitLayer) -> None:
    """Let the host's own git directory read what is committed in the box. Raises OSError."""
    write_alternates(os.path.join(shadow_dir, "objects"), [*layer.alternates, layer.objects])


def git_mounts(layer: GitLayer) -> list[Mount]:
    """Return the mounts of the private git directory; `store_mount` comes after what is hidden."""
    worktree = layer.worktree
    common = worktree.common_dir
    mounts = [writable(layer.folder, common)]
    # Mounts of their own cannot be renamed or replaced by links: what the host reads of the private
    # objects afterwards, and whose alternates it obeys, stays where it was made.
    mounts += [
        writable(os.path.join(layer.folder, name), os.path.join(common, name))
        for name in ("objects", "objects/info")
    ]
    for name in sorted(os.listdir(common)):
        path = os.path.join(common, name)
        is_plain = os.path.isfile(path) or os.path.isdir(path)
        if name not in _OWN and not name.endswith(".lock") and is_plain:
            mounts.append(read_only(os.path.realpath(path), at=path))
    mounts += [read_only(os.path.realpath(path)) for path in layer.alternates[1:]]
    own_alternates = os.path.join(layer.objects, "info", "alternates")
    mounts.append(read_only(own_alternates, at=os.path.join(common, "objects/info/alternates")))
    return mounts


def store_mount(layer: GitLayer) -> Mount:
    """Return the mount that shows the real objects to the box."""
    return read_only(os.path.join(layer.worktree.common_dir, "objects"), at=layer.store)


def write_alternates(objects: str, places: list[str]) -> None:
    """Write the alternates of the folder `objects`: the folders where git looks besides."""
    path = os.path.join(objects, "info", "alternates")
    with open(path + ".new", "wb") as file:
        file.write(b"".join(os.fsencode(place) + b"\n" for place in places))
    os.replace(path + ".new", path)


def copy_plain_files(source: str, target: str) -> None:
    """Copy the plain files below `source`; a lock, a link, or a file that goes meanwhile, is left
    out. Raises OSError when the copy cannot be written."""
    for place, _, names in os.walk(source):
        folder = os.path.normpath(os.path.join(target, os.path.relpath(place, source)))
        os.makedirs(folder, mode=0o700, exist_ok=True)
        for name in names:
            path = os.path.join(place, name)
            if name.endswith(".lock") or os.path.islink(path) or not os.path.isfile(path):
                continue
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(path, os.path.join(folder, name))


def _alternates_of(objects: str) -> list[str]:
    try:
        with open(os.path.join(objects, "info", "alternates"), "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    named = [os.fsdecode(line) for line in lines if line and not line.startswith(b"#")]
    paths = [os.path.normpath(os.path.join(objects, name)) for name in named]
    return [path for path in paths if os.path.isdir(path)]
