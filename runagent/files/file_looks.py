"""The files of one worktree at several moments: what is read when.

A file whose item is as it was is not read again; one that is new, or whose item differs, is read
once, at the moment of the look. What stood there at the start is known from the ids of our own
checkout, so that the start costs no read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from runagent.deadline import Deadline
from runagent.files.file_contents import Content, ContentReader
from runagent.files.manifest import Manifest, ManifestBounds, change_time_ns, is_file, joined
from runagent.files.manifest_walk import take_manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLook:
    """One look: what stood where, and what the files held that were read for it or before it."""

    manifest: Manifest = field(default_factory=Manifest)
    contents: Mapping[bytes, Content] = field(default_factory=dict)
    unread: AbstractSet[bytes] = frozenset()  # should have been read and could not be
    stored: Mapping[bytes, bytes] = field(default_factory=dict)  # the start's: path -> mode and id

    def content(self, path: bytes) -> Content | None:
        """Return what the file held at this look, None when that is not known."""
        found = self.contents.get(path)
        if found is not None or path in self.unread:
            return found
        entry = self.stored.get(path)
        if entry is None:
            return None
        object_id = entry.rpartition(b" ")[2]
        return Content(object_id, object_id)

    def has_the_names_of(self, manifest: Manifest) -> bool:
        """Say whether `manifest` has the very names of this look."""
        ours, theirs = self.manifest.folders, manifest.folders
        if ours.keys() != theirs.keys():
            return False
        return all(names.keys() == theirs[folder].keys() for folder, names in ours.items())


class TreeWatcher:
    """Looks at the worktree `root`; `algorithm` is the repository's object format, `asks_clock` as
    in `take_manifest`."""

    def __init__(
        self, root: str, *, algorithm: str, bounds: ManifestBounds, asks_clock: bool = False
    ) -> None:
        self._root = root
        self._algorithm = algorithm
        self._bounds = bounds
        self._asks_clock = asks_clock

    def start(
        self,
        deadline: Deadline,
        stored: Mapping[bytes, bytes],
        wants: Callable[[bytes], bool],
        seen: Manifest | None = None,
    ) -> TreeLook:
        """Look at the fresh checkout. `stored` are the entries of our own index after it; the
        files that it `wants` are read: those of which that index does not say what they hold.
        `seen` is an earlier look by the host: it is taken for this one while every name stands
        as it did. What anybody wrote to a file since shows at the next look."""
        if seen is None or not _names_stand(self._root, seen):
            seen = self.walk(deadline, None)
        manifest = seen
        files = {path for path, item in manifest.paths() if wants(path) and is_file(item)}
        look = TreeLook(manifest=manifest, stored=stored)
        return self._having_read(look, files, {}, deadline)

    def walk(self, deadline: Deadline, before: TreeLook | None) -> Manifest:
        """Return what stands in the tree now."""
        known = before.manifest if before is not None else None
        return take_manifest(
            self._root, deadline, bounds=self._bounds, before=known, asks_clock=self._asks_clock
        )

    def read(
        self,
        manifest: Manifest,
        before: TreeLook,
        deadline: Deadline,
        is_ignored: Callable[[bytes], bool],
    ) -> TreeLook:
        """Return the look that `manifest` is a part of. Files that are new, or may be other than at
        `before`, are read now, unless they are new and ignored: those are no work."""
        to_read = set(_in_doubt(manifest, before.manifest, is_ignored))
        kept = {path: found for path, found in before.contents.items() if path not in to_read}
        unread = before.unread - to_read
        look = TreeLook(manifest=manifest, unread=unread, stored=before.stored)
        return self._having_read(look, to_read, kept, deadline)

    def _having_read(
        self,
        look: TreeLook,
        paths: AbstractSet[bytes],
        kept: Mapping[bytes, Content],
        deadline: Deadline,
    ) -> TreeLook:
        reader = ContentReader(self._root, deadline, algorithm=self._algorithm, bounds=self._bounds)
        contents = dict(kept)
        unread = set(look.unread)
        for path in sorted(paths):
            content = reader.read(path)
            if content is None:
                unread.add(path)
            else:
                contents[path] = content
        return TreeLook(
            manifest=look.manifest, contents=contents, unread=unread, stored=look.stored
        )


def _names_stand(root: str, manifest: Manifest) -> bool:
    """Say whether each folder holds the names of `manifest`, no more and no less, the root's own
    `.git` aside. No agent has been there yet."""
    top = os.fsencode(root)
    try:
        for folder, names in manifest.folders.items():
            found = set(os.listdir(joined(top, folder) if folder else top))
            if not folder:
                found.discard(b".git")
            if found != names.keys():
                return False
    except OSError:
        return False
    return True


def _in_doubt(
    manifest: Manifest, before: Manifest, is_ignored: Callable[[bytes], bool]
) -> Iterator[bytes]:
    """Yield the files that are new, or may be other than before."""
    proven_ns = before.proven_ns
    for folder, names in manifest.folders.items():
        old_names = before.folders.get(folder, {})
        if names is old_names and before.youngest.get(folder, 0) <= proven_ns:
            continue
        for name, item in names.items():
            if not is_file(item):
                continue
            old = old_names.get(name)
            if old != item or change_time_ns(item) > proven_ns:
                path = joined(folder, name)
                if old is not None or not is_ignored(path):
                    yield path
