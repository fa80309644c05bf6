"""Which files differ between two looks at a tree, by their bytes alone.

Owns the comparison. What was left out of a look, or could not be read, is never taken for gone or
for new: the look itself told of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from runagent.files.file_looks import TreeLook
from runagent.files.manifest import (
    is_file,
    is_folder,
    is_special,
    joined,
    shape_of,
    size_of,
)

_GIT: Final = b".git"


@dataclass(slots=True)
class Differences:
    """What differs. `unread`, a part of `changed`, are files that were touched and that nobody read
    on both sides. `lines` hold the same but for their line ends, and stand nowhere else."""

    changed: set[bytes] = field(default_factory=set)  # files and links: added, removed, other
    unread: set[bytes] = field(default_factory=set)
    lines: set[bytes] = field(default_factory=set)
    special: set[bytes] = field(default_factory=set)  # new: neither file nor link nor folder
    git_folders: set[bytes] = field(default_factory=set)  # new: a `.git` below the root

    @property
    def are_none(self) -> bool:
        """Say whether both looks saw the very same."""
        return not (self.changed or self.lines or self.special or self.git_folders)


def tell_differences(before: TreeLook, now: TreeLook) -> Differences:
    """Return what differs in `now` against `before`, an earlier look at the same tree."""
    found = Differences()
    for path in _candidates(before, now):
        old, new = before.manifest.item(path), now.manifest.item(path)
        if path.rpartition(b"/")[2] == _GIT:  # the root's own is in no look
            if old is None and new is not None:
                found.git_folders.add(path)
            continue
        if new is not None and is_special(new) and (old is None or not is_special(old)):
            found.special.add(path)
        _compare(path, before, now, found)
    return found


def _candidates(before: TreeLook, now: TreeLook) -> Iterator[bytes]:
    """Yield each path whose item differs, and each that was read because its item proves little."""
    seen: set[bytes] = set()
    ours, theirs = before.manifest.folders, now.manifest.folders
    for folder in ours.keys() | theirs.keys():
        old, new = ours.get(folder, {}), theirs.get(folder, {})
        if old is new:
            continue
        for name in {name for name, _ in old.items() ^ new.items()}:
            path = joined(folder, name)
            seen.add(path)
            yield path
    for path in (now.contents.keys() | now.unread) - seen:
        yield path


def _compare(path: bytes, before: TreeLook, now: TreeLook, found: Differences) -> None:
    old, new = before.manifest.item(path), now.manifest.item(path)
    was_work, is_work = _is_work(old), _is_work(new)
    if old is None or new is None or not (was_work and is_work):
        if was_work != is_work and _is_known(path, before if is_work else now):
            found.changed.add(path)
        return
    if shape_of(old) != shape_of(new):
        found.changed.add(path)
    elif is_file(old):
        _compare_contents(path, before, now, found)


def _compare_contents(path: bytes, before: TreeLook, now: TreeLook, found: Differences) -> None:
    old_item, new_item = before.manifest.item(path), now.manifest.item(path)
    old, new = before.content(path), now.content(path)
    if old is None or new is None:
        if old_item != new_item and old_item is not None and new_item is not None:
            found.changed.add(path)
            if size_of(old_item) == size_of(new_item):
                found.unread.add(path)
    elif old.raw != new.raw:
        (found.lines if old.is_like(new) else found.changed).add(path)


def _is_work(item: bytes | None) -> bool:
    """Say whether the item is something that git can store."""
    return item is not None and not is_folder(item) and not is_special(item)


def _is_known(path: bytes, look: TreeLook) -> bool:
    """Say whether the look would have seen `path`, had it been there."""
    manifest = look.manifest
    if manifest.item(path) is not None:
        return True
    if not manifest.is_whole:
        return False
    folders = [path[:place] for place, byte in enumerate(path) if byte == ord("/")]
    return not any(folder in manifest.unreadable for folder in (b"", *folders))
