"""The main checkout, compared by what the file system says of each file: nothing of it is read.

Owners edit, commit and switch there during a job. What an owner's commits explain is left out; the
rest is drift that somebody has to know of. Ignored folders are skipped, the walk is bounded, links
are not followed, and git is never run there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from contracts.errors import FleetError
from runagent.deadline import Deadline
from runagent.git.ignore_rules import IgnoreRules

# A checkout of 200,000 files is walked in some two seconds; the largest known ones have more.
ENTRIES_MAX: Final = 200_000
_GIT_NAMES: Final = (b".git",)
_KIND: Final = 0o170000  # stat.S_IFMT, without a call for each file

Stamp = tuple[int, ...]  # mode, size, times of content and inode, inode


@dataclass(frozen=True, slots=True)
class CheckoutFiles:
    """Every file of the main checkout that is not ignored. `partly`: why some were not seen."""

    files: Mapping[bytes, Stamp]
    partly: str = ""


def read_main_checkout(repo: str, rules: IgnoreRules, deadline: Deadline) -> CheckoutFiles:
    """Return the files below `repo` as they stand now. Never raises for what stands there."""
    walk = _Walk(os.fsencode(repo), rules, deadline)
    try:
        walk.run()
    except FleetError as error:
        return CheckoutFiles(walk.files, str(error))
    return CheckoutFiles(walk.files, walk.partly)


def changed_files(before: CheckoutFiles, now: CheckoutFiles) -> list[bytes]:
    """Return the paths that differ, sorted; of a walk that was cut only what both saw."""
    if before.partly or now.partly:
        both = before.files.keys() & now.files.keys()
        return sorted(path for path in both if before.files[path] != now.files[path])
    old, new = before.files, now.files
    gone = (path for path in old if path not in new)
    return sorted({*gone, *(path for path, stamp in new.items() if old.get(path) != stamp)})


class _Walk:
    """One walk, level by level: git is asked once per level which new folders it ignores."""

    def __init__(self, root: bytes, rules: IgnoreRules, deadline: Deadline) -> None:
        self._root = root
        self._rules = rules
        self._deadline = deadline
        self._known = rules.folders
        self._untracked: list[bytes] = []
        self.files: dict[bytes, Stamp] = {}
        self.partly = ""

    def run(self) -> None:
        level = [b""]
        while level and not self.partly:
            found: list[bytes] = []
            for folder in level:
                self._read(folder, found)
            strange = [folder for folder in found if folder not in self._known]
            ignored = self._rules.ignored((), strange, self._deadline)
            level = [folder for folder in found if folder not in ignored]
        for path in self._rules.ignored(self._untracked, (), self._deadline):
            del self.files[path]

    def _read(self, folder: bytes, found: list[bytes]) -> None:
        if len(self.files) + len(found) > ENTRIES_MAX:
            self.partly = f"it has more than {ENTRIES_MAX} entries"
            return
        prefix = folder + b"/" if folder else b""
        files, tracked = self.files, self._rules.tracked
        try:
            with os.scandir(os.path.join(self._root, folder) if folder else self._root) as entries:
                for entry in entries:  # once for each file of two looks: nothing is called in vain
                    if entry.name in _GIT_NAMES:
                        continue
                    path = prefix + entry.name
                    try:
                        state = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    mode = state.st_mode
                    if mode & _KIND == stat.S_IFDIR:
                        found.append(path)
                        continue
                    times = state.st_mtime_ns, state.st_ctime_ns
                    files[path] = (mode, state.st_size, *times, state.st_ino)
                    if path not in tracked:
                        self._untracked.append(path)
        except OSError:
            files[folder + b"/"] = ()  # it cannot be read: that is what is known of it
