"""Walking a tree that an agent made: by descriptor, from folder to folder, following nothing.

A folder is opened below the one that is open already, so that no link and no renamed folder can
lead the walk out of the tree. Nothing but folders is opened: a pipe or a device is seen by its
name's own data. A folder on another disk is not entered, the `.git` of any folder neither. Where
the system knows no descriptors for this (Windows) the walk goes by path; that half is unrun.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from typing import Final

from contracts.run_agent import Risk
from runagent.deadline import Deadline
from runagent.files.file_clock import read_clock_ns
from runagent.files.manifest import FOLDER, Manifest, ManifestBounds, joined, pack

BY_DESCRIPTOR: Final = os.open in os.supports_dir_fd and os.scandir in os.supports_fd
_FOLDER_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_DIRECTORY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
_GIT: Final = b".git"
_KIND: Final = 0o170000  # stat.S_IFMT, without a call for each file
_ENCODING: Final = sys.getfilesystemencoding()  # os.fsencode, without a call for each file
_ERRORS: Final = sys.getfilesystemencodeerrors()
_NAMED: Final = 5
_LOOK_EVERY: Final = 1_024  # files between two looks at the clock


def take_manifest(
    root: str,
    deadline: Deadline,
    *,
    bounds: ManifestBounds | None = None,
    before: Manifest | None = None,
    by_descriptor: bool = BY_DESCRIPTOR,
    asks_clock: bool = False,
) -> Manifest:
    """Return every name below `root` but its own `.git`. `before` is an earlier look, whose folders
    are taken over where nothing in them is new; `asks_clock` has the clock of the file system asked
    first, in the folder of `root`. Never raises for anything that stands there: what was left out
    is told as the risk `evidence_incomplete`."""
    walk = _Walk(deadline, bounds or ManifestBounds(), before, by_descriptor=by_descriptor)
    walk.start(os.fsencode(root), asks_clock=asks_clock)
    return walk.manifest()


class _Walk:
    """One walk. `place` is a descriptor, or a path where there are none."""

    def __init__(
        self,
        deadline: Deadline,
        bounds: ManifestBounds,
        before: Manifest | None,
        *,
        by_descriptor: bool,
    ) -> None:
        self._deadline = deadline
        self._bounds = bounds
        self._known = before.folders if before is not None else {}
        self._by_descriptor = by_descriptor
        self._folders: dict[bytes, Mapping[bytes, bytes]] = {}
        self._unreadable: dict[bytes, str] = {}
        self._left_out = ""
        self._count = 0
        self._next_check = 0
        self._youngest: dict[bytes, int] = {}
        self._device = 0
        self._clock_ns: int | None = None

    def start(self, root: bytes, *, asks_clock: bool) -> None:
        try:
            place = self._open(root, None)
        except OSError as error:
            self._unreadable[b""] = error.strerror or "?"
            return
        try:
            found = os.fstat(place) if isinstance(place, int) else os.lstat(place)
            self._device = found.st_dev
            if asks_clock:
                self._clock_ns = read_clock_ns(os.path.dirname(root), found.st_dev)
            self._folder(place, b"", 0)
        finally:
            self._close(place)

    def manifest(self) -> Manifest:
        problems = []
        if self._unreadable:
            problems.append(_unreadable_risk(self._unreadable))
        if self._left_out:
            message = f"not every file of the worktree was looked at: {self._left_out}"
            problems.append(Risk(code="evidence_incomplete", message=message))
        return Manifest(
            folders=self._folders,
            unreadable=frozenset(self._unreadable),
            is_whole=not self._left_out,
            youngest=self._youngest,
            clock_ns=self._clock_ns,
            problems=tuple(problems),
        )

    def _folder(self, place: int | bytes, path: bytes, depth: int) -> None:
        names: dict[bytes, bytes] = {}
        try:
            inner = self._names(place, path, names)
        except OSError as error:
            self._unreadable[path] = error.strerror or "?"
            return
        known = self._known.get(path)
        self._folders[path] = known if known == names and known is not None else names
        if inner and depth >= self._bounds.depth_max:
            self._left_out = f"folders stand deeper than {self._bounds.depth_max}"
            return
        for name in inner:
            self._enter(place, joined(path, name), name, depth + 1)

    def _names(self, place: int | bytes, path: bytes, names: dict[bytes, bytes]) -> list[bytes]:
        """Put what stands in the folder into `names`; return the folders to enter."""
        inner: list[bytes] = []
        youngest = 0
        with os.scandir(place) as entries:
            for entry in entries:  # once for each file of three looks: nothing is called in vain
                name = entry.name  # a descriptor's names are text, a path's are bytes
                if isinstance(name, str):
                    name = name.encode(_ENCODING, _ERRORS)
                if name == _GIT and not path:
                    continue
                if self._count >= self._next_check and self._is_full():
                    break
                self._count += 1
                found = entry.stat(follow_symlinks=False)
                kind = found.st_mode & _KIND
                if kind == stat.S_IFDIR:
                    names[name] = FOLDER
                    if name != _GIT:
                        inner.append(name)
                    continue
                target = self._target(place, name) if kind == stat.S_IFLNK else b""
                names[name] = pack(found, target)
                youngest = max(youngest, found.st_ctime_ns)
        self._youngest[path] = youngest
        return inner

    def _is_full(self) -> bool:
        if self._count >= self._bounds.files_max:
            self._left_out = f"there are more than {self._bounds.files_max}"
        elif self._deadline.is_over():
            self._left_out = f"it took longer than {self._deadline.seconds:.0f} s"
        self._next_check = min(self._count + _LOOK_EVERY, self._bounds.files_max)
        return bool(self._left_out)

    def _enter(self, parent: int | bytes, path: bytes, name: bytes, depth: int) -> None:
        try:
            place = self._open(name, parent)
        except OSError as error:
            self._unreadable[path] = error.strerror or "?"
            return
        try:
            found = os.fstat(place) if isinstance(place, int) else os.lstat(place)
            if found.st_dev != self._device:
                self._unreadable[path] = "it lies on another disk"
            else:
                self._folder(place, path, depth)
        finally:
            self._close(place)

    def _open(self, name: bytes, parent: int | bytes | None) -> int | bytes:
        if self._by_descriptor:
            below = parent if isinstance(parent, int) else None
            return os.open(name, _FOLDER_FLAGS, dir_fd=below)
        path = os.path.join(parent, name) if isinstance(parent, bytes) else name
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise NotADirectoryError(20, "not a folder", path)
        return path

    @staticmethod
    def _close(place: int | bytes) -> None:
        if isinstance(place, int):
            os.close(place)

    @staticmethod
    def _target(place: int | bytes, name: bytes) -> bytes:
        if isinstance(place, int):
            return os.readlink(name, dir_fd=place)
        return os.readlink(os.path.join(place, name))


def _unreadable_risk(unreadable: Mapping[bytes, str]) -> Risk:
    shown = ", ".join(
        f"{(path or b'the worktree').decode('utf-8', 'backslashreplace')} ({why})"
        for path, why in sorted(unreadable.items())[:_NAMED]
    )
    more = f" and {len(unreadable) - _NAMED} more" if len(unreadable) > _NAMED else ""
    return Risk(code="evidence_incomplete", message=f"folders cannot be read: {shown}{more}")
