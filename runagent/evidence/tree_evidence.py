"""The worktree's files at one moment: what git says of them and what they are.

Owns the pair of both, and that git is asked only when a file is other than before: the answer of
our own git directory depends on the files and on nothing that an agent can reach.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from runagent.deadline import Deadline
from runagent.evidence.conversions import rewrites_on_checkout
from runagent.evidence.ignored_paths import IgnoredPaths
from runagent.evidence.snapshot import Snapshot, take_snapshot
from runagent.files.file_looks import TreeLook, TreeWatcher
from runagent.files.manifest import Manifest, ManifestBounds
from runagent.files.tree_differences import tell_differences
from runagent.git.shadow_git import ShadowGit

_SHA256_CHARS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeState:
    """Git's answer and the files' own, of one moment. `also` are paths that git was made to look
    at though they may be ignored: what was committed by then."""

    snapshot: Snapshot = field(default_factory=Snapshot)
    files: TreeLook = field(default_factory=TreeLook)
    also: frozenset[bytes] = frozenset()

    def gone(self) -> TreeState:
        """Return the state of a tree that cannot be looked at any more: nothing is said of it."""
        return replace(self, snapshot=Snapshot(entries=self.snapshot.entries))


class TreeEvidence:
    """Looks at the files of one worktree through `shadow`, our git directory for it."""

    def __init__(self, shadow: ShadowGit, bounds: ManifestBounds) -> None:
        self._shadow = shadow
        self._bounds = bounds
        self._watcher = self._watch("sha1")

    def _watch(self, algorithm: str) -> TreeWatcher:
        root = self._shadow.work_tree
        return TreeWatcher(root, algorithm=algorithm, bounds=self._bounds, asks_clock=True)

    def start(
        self, snapshot: Snapshot, deadline: Deadline, seen: Manifest | None = None
    ) -> TreeState:
        """Look at the fresh checkout, of which git said `snapshot`. `seen` is an earlier look of
        the host's, since which nobody was to write there."""
        entries, root = snapshot.entries, self._shadow.work_tree
        object_id = next(iter(entries.values()), b"").rpartition(b" ")[2]
        algorithm = "sha256" if len(object_id) == _SHA256_CHARS else "sha1"
        self._watcher = self._watch(algorithm)
        rewritten = rewrites_on_checkout(self._shadow.directory, os.fsencode(root), entries)
        ignored = IgnoredPaths(snapshot.ignored, entries)
        files = self._watcher.start(
            deadline,
            entries,
            lambda path: rewritten or (path not in entries and path not in ignored),
            seen if self._bounds == ManifestBounds() else None,
        )
        return TreeState(snapshot=snapshot, files=files)

    def look(self, before: TreeState, also: Iterable[bytes], deadline: Deadline) -> TreeState:
        """Look again. Never raises for anything that stands in the tree."""
        committed = frozenset(also)
        manifest = self._watcher.walk(deadline, before.files)
        files: TreeLook | None = None
        if before.files.has_the_names_of(manifest):
            files = self._watcher.read(manifest, before.files, deadline, lambda _path: False)
            same = tell_differences(before.files, files).are_none
            if same and committed == before.also and manifest.is_whole:
                return replace(before, files=files)
        snapshot = take_snapshot(
            self._shadow, deadline, also=committed, before=before.snapshot, manifest=manifest
        )
        if files is None:
            ignored = IgnoredPaths(snapshot.ignored, snapshot.entries)
            files = self._watcher.read(manifest, before.files, deadline, ignored.__contains__)
        return TreeState(snapshot=snapshot, files=files, also=committed)
