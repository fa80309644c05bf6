"""Submodules of a worktree, looked into one by one: does one hold work that is nowhere else?

Each gets a git directory of ours for the look, as the worktree itself does. A submodule whose git
directory is not where git puts it is not looked at, and said to be a problem.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from runagent.deadline import Deadline
from runagent.evidence.snapshot import Snapshot, take_snapshot
from runagent.git.head import read_line, read_lines, read_pointer
from runagent.git.shadow_git import ShadowGit, create_shadow
from runagent.trees.worktree_files import keeps_file_mode

_GITLINK: Final = b"160000 "
_DEPTH_MAX: Final = 5


@dataclass(slots=True)
class SubmoduleFindings:
    """Paths in submodules that differ from the commit their parent names, and problems."""

    changed: list[bytes] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def look_into_submodules(
    shadow: ShadowGit, snapshot: Snapshot, admin_dir: str, common_dir: str, deadline: Deadline
) -> SubmoduleFindings:
    """Return what the filled submodules of the tree hold, those inside them included.

    Raises CouldNotCheck, Unavailable or OSError.
    """
    found = SubmoduleFindings()
    homes = (os.path.join(admin_dir, "modules"), os.path.join(common_dir, "modules"))
    _look(shadow, snapshot, homes, deadline, found, depth=0)
    return found


def _look(
    shadow: ShadowGit,
    snapshot: Snapshot,
    homes: Iterable[str],
    deadline: Deadline,
    found: SubmoduleFindings,
    *,
    depth: int,
) -> None:
    for path, entry in snapshot.entries.items():
        if not entry.startswith(_GITLINK) or snapshot.loose.get(path) != "filled":
            continue
        tree = os.path.join(shadow.work_tree, os.fsdecode(path))
        commit = entry.removeprefix(_GITLINK).decode("ascii")
        git_dir = _git_dir_of(tree, homes)
        shown = path.decode("utf-8", "backslashreplace")
        if not git_dir or depth >= _DEPTH_MAX:
            found.problems.append(f"the submodule {shown} cannot be looked into")
            continue
        inner = _open(shadow, tree, git_dir, commit, depth)
        try:
            inner.run(("read-tree", "HEAD"), deadline)
            looked = take_snapshot(inner, deadline, also=(), before=None)
            found.changed += [path + b"/" + name for name in looked.changed]
            found.problems += [f"in {shown}: {problem.message}" for problem in looked.problems]
            if _is_unpushed(inner, commit, git_dir, deadline):
                found.problems.append(f"the submodule {shown} stands at a commit of its own")
            inside = SubmoduleFindings()
            _look(inner, looked, homes, deadline, inside, depth=depth + 1)
            found.changed += [path + b"/" + name for name in inside.changed]
            found.problems += inside.problems
        finally:
            shutil.rmtree(inner.directory, ignore_errors=True)


def _open(shadow: ShadowGit, tree: str, git_dir: str, commit: str, depth: int) -> ShadowGit:
    inner = shadow.beside(f"{shadow.directory}-{depth}", tree)
    shutil.rmtree(inner.directory, ignore_errors=True)
    create_shadow(
        inner,
        common_dir=git_dir,
        admin_dir=git_dir,
        commit=commit,
        settings={},
        keeps_file_mode=keeps_file_mode(os.path.join(tree, ".git")),
    )
    return inner


def _git_dir_of(tree: str, homes: Iterable[str]) -> str:
    """Return the git directory that the submodule's `.git` file names, "" unless it lies where git
    puts those of this worktree."""
    pointer = os.fsdecode(read_pointer(tree)).strip()
    if not pointer.startswith("gitdir: "):
        return ""
    real = os.path.realpath(os.path.join(tree, pointer.removeprefix("gitdir: ")))
    inside = any(real.startswith(os.path.realpath(home) + os.sep) for home in homes)
    return real if inside and os.path.isdir(real) else ""


def _is_unpushed(inner: ShadowGit, commit: str, git_dir: str, deadline: Deadline) -> bool:
    """Say whether no branch of the submodule's remote reaches the commit its parent names."""
    remote = sorted(_remote_commits(git_dir))
    wanted = "\n".join([commit, *(f"^{other}" for other in remote)])
    listing, _ = inner.run(
        ("rev-list", "--count", "--max-count=1", "--stdin"), deadline, stdin=wanted.encode() + b"\n"
    )
    return int(listing) > 0


def _remote_commits(git_dir: str) -> set[str]:
    found: set[str] = set()
    for line in read_lines(os.path.join(git_dir, "packed-refs")):
        commit, _, ref = line.decode("ascii", "replace").strip().partition(" ")
        if ref.startswith("refs/remotes/"):
            found.add(commit)
    for place, _, names in os.walk(os.path.join(git_dir, "refs", "remotes")):
        found.update(read_line(os.path.join(place, name)) for name in names)
    return {commit for commit in found if commit and all(c in "0123456789abcdef" for c in commit)}
