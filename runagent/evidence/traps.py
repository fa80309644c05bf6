"""Rule files that git must not be let near: a pipe that would hold it, a giant that it would load.

Git reads `.gitignore` and `.gitattributes` of every folder before it says anything, opens them
without asking what they are, and takes an ignore file into memory whole. It must never open one.
"""

from __future__ import annotations

import os
import stat
from typing import Final

from contracts.run_agent import Risk
from runagent.files.manifest import Manifest, is_file, is_special, joined, size_of

_RULE_FILES: Final = frozenset({b".gitignore", b".gitattributes"})
# Git itself passes over attribute files beyond 100 MB; a rule file of people has some kilobytes.
_RULES_MAX_BYTES: Final = 16 * 1024 * 1024
_NAMED: Final = 5


def find_traps(root: bytes) -> list[bytes]:
    """Return the rule files below `root` that are a pipe, a socket, a device or too large, relative
    to it. Folders that cannot be read are passed over: git reads nothing there either."""
    traps: list[bytes] = []
    pending = [b""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as entries:
                for entry in entries:
                    path = os.path.join(folder, entry.name)
                    if entry.name in _RULE_FILES and _is_trap(entry):
                        traps.append(path)
                    elif entry.is_dir(follow_symlinks=False) and entry.name != b".git":
                        pending.append(path)
        except OSError:
            continue
    return sorted(traps)


def traps_in(manifest: Manifest) -> list[bytes]:
    """Return the same as `find_traps` out of a walk that is done already, and whole."""
    return sorted(
        joined(folder, name)
        for folder, names in manifest.folders.items()
        for name in _RULE_FILES.intersection(names)
        if is_special(names[name])
        or (is_file(names[name]) and size_of(names[name]) > _RULES_MAX_BYTES)
    )


def trap_risk(traps: list[bytes]) -> Risk:
    """Return the risk that says why nothing was looked at."""
    named = ", ".join(path.decode("utf-8", "backslashreplace") for path in traps[:_NAMED])
    return Risk(
        code="evidence_incomplete",
        message=f"git cannot be run on the worktree: {named} is no plain file or is larger than "
        f"{_RULES_MAX_BYTES} bytes",
    )


def _is_trap(entry: os.DirEntry[bytes]) -> bool:
    mode = entry.stat(follow_symlinks=False)
    if stat.S_ISREG(mode.st_mode):
        return mode.st_size > _RULES_MAX_BYTES
    return not (stat.S_ISDIR(mode.st_mode) or stat.S_ISLNK(mode.st_mode))
