"""The other worktrees of a repository: the few files that say where each one lies and what it is.

They belong to other jobs and to the owner, and are within an agent's reach. Worktrees come and go
during a job; what changes in one that stays is worth a look. It must never run git.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from runagent.around.checkouts import sibling_folders
from runagent.around.program_settings import starts_program
from runagent.around.shared_state import read_settings
from runagent.deadline import Deadline
from runagent.git.head import read_line, read_pointer
from runagent.git.shadow_git import ShadowGit
from runagent.trees.worktree import Worktree


@dataclass(frozen=True, slots=True)
class Sibling:
    """One other worktree: its folder, its `.git` file, and its two pointers. "" and b"": none."""

    folder: str
    pointer: bytes
    commondir: str
    settings: frozenset[bytes] = frozenset()  # of its own config.worktree, `key\nvalue`


def read_siblings(worktree: Worktree, shadow: ShadowGit, deadline: Deadline) -> dict[str, Sibling]:
    """Return the other worktrees by the names of their git directories."""
    found: dict[str, Sibling] = {}
    for name, git_dir in sibling_folders(worktree.common_dir, worktree.admin_dir):
        gitdir = read_line(f"{git_dir}/gitdir")
        folder = os.path.dirname(os.path.join(git_dir, gitdir)) if gitdir else ""
        pointer = read_pointer(folder) if folder else b""
        commondir = read_line(f"{git_dir}/commondir")
        settings = read_settings(shadow, f"{git_dir}/config.worktree", deadline)
        found[name] = Sibling(folder, pointer, commondir, settings)
    return found


def tell_changed_siblings(before: Mapping[str, Sibling], now: Mapping[str, Sibling]) -> list[str]:
    """Return in words what changed in other worktrees, and is not one that came or went.

    One that was only half made at the start is passed over; one that is being removed loses its
    files before its git directory.
    """
    told: list[str] = []
    for name, sibling in before.items():
        if not (sibling.folder and sibling.pointer and sibling.commondir):
            continue
        later = now.get(name)
        if later is None:
            if read_pointer(sibling.folder) == sibling.pointer:
                told.append(f"the git directory of the worktree {sibling.folder} is gone")
        elif later.folder != sibling.folder or later.commondir != sibling.commondir:
            told.append(f"the git directory of the worktree {sibling.folder} leads elsewhere")
        elif later.pointer != sibling.pointer and _stands(sibling.folder):
            told.append(f"the .git file of the worktree {sibling.folder} is not the same")
        elif any(map(starts_program, later.settings - sibling.settings)):
            told.append(f"the settings of the worktree {sibling.folder} start a program")
    return told


def _stands(folder: str) -> bool:
    """Say whether something stands there besides what a removal leaves for a moment."""
    return os.path.lexists(os.path.join(folder, ".git"))
