"""All refs of a repository, read from git's files, and which of them somebody moved who may not.

A worktree shares its refs with everybody. Owners commit, fetch, push, tag and branch during a job,
other jobs commit on theirs: what has such an explanation is nobody's drift. It must never run git
on the repository; whether one commit leads to another is asked of the host's own git directory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from runagent.around.checkouts import MAIN, Checkout, moves_since, read_checkouts
from runagent.git.head import loose_refs, read_line, read_lines
from runagent.trees.worktree import Worktree

_HEADS: Final = "refs/heads/"
_JOBS: Final = "refs/heads/wt/"
_TAGS: Final = "refs/tags/"
_STASH: Final = "refs/stash"
_REFS_MAX: Final = 50_000
_STASHES_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Refs:
    """Every ref and its object id, every checkout of somebody else, every stash entry."""

    tips: Mapping[str, str]
    checkouts: Mapping[str, Checkout]
    stashes: frozenset[str]


def read_refs(worktree: Worktree, *, after: bool) -> Refs:
    """Return the refs of the repository of `worktree`; a loose ref outdoes a packed one."""
    common_dir = worktree.common_dir
    tips: dict[str, str] = {}
    # The checkouts' logs are read last: git writes them before it moves the ref.
    for line in read_lines(os.path.join(common_dir, "packed-refs")):
        commit, _, ref = line.decode("utf-8", "backslashreplace").strip().partition(" ")
        if ref.startswith("refs/") and len(tips) < _REFS_MAX:
            tips[ref] = commit
    for ref in loose_refs(common_dir):
        if len(tips) > _REFS_MAX:
            break
        if not ref.endswith(".lock"):
            tips[ref] = read_line(f"{common_dir}/{ref}")
    stashes = [tips.get(_STASH, ""), *_logged(os.path.join(common_dir, "logs", "refs", "stash"))]
    checkouts = read_checkouts(common_dir, own_admin_dir=worktree.admin_dir, after=after)
    return Refs(tips, checkouts, frozenset(filter(None, stashes)))


def tell_moved_refs(
    before: Refs,
    now: Refs,
    *,
    own_branch: str,
    own_commits: frozenset[str],
    leads_to: Callable[[str, str], bool],
) -> list[str]:
    """Return in words what moved and has no explanation but this job.

    `own_branch` is the job's without refs/heads/, `own_commits` what it committed; `leads_to(a, b)`
    says whether commit `b` was made on top of `a`.
    """
    told: list[str] = []
    for ref, old in before.tips.items():
        new = now.tips.get(ref, "")
        if new == old or ref == _HEADS + own_branch:
            continue
        if new in own_commits:
            if not ref.startswith(_HEADS) or ref.startswith(_JOBS):
                told.append(f"{ref} stands at a commit of this job")
        elif (why := _unexplained(ref, old, new, before, now, leads_to)) is not None:
            told.append(f"{ref} {why}; it was at {old[:12]}")
    lost = len(before.stashes - now.stashes)
    if lost:
        told.append(f"{lost} stash {'entry is' if lost == 1 else 'entries are'} gone")
    return told + list(_moved_heads(before, now))


def owner_moves(before: Refs, now: Refs) -> list[tuple[str, str]]:
    """Return (from, to) of each move of the main checkout's HEAD: by its own log, an owner's."""
    return moves_since(before.checkouts[MAIN], now.checkouts[MAIN]) or []


def _unexplained(
    ref: str,
    old: str,
    new: str,
    before: Refs,
    now: Refs,
    leads_to: Callable[[str, str], bool],
) -> str | None:
    """Return what is wrong with a ref that moved from `old` to `new` ("": gone), else None."""
    if ref.startswith(_JOBS) or not ref.startswith((_HEADS, _TAGS)):
        return None  # another job's, or what fetches, prunes and tools of the owner move freely
    if not new:
        return "is gone"
    if ref.startswith(_TAGS):
        return f"was moved to {new[:12]}"
    logs = list(_logs_of(ref, before, now))
    if any(log is not None for log in logs):
        seen = {to for log in logs for _, to in log or ()}
        return None if new in seen else f"is checked out and was moved to {new[:12]} from elsewhere"
    if leads_to(old, new) or new in _visited(before, now):
        return None
    return f"was moved to {new[:12]}, away from its commits"


def _logs_of(ref: str, before: Refs, now: Refs) -> Iterator[list[tuple[str, str]] | None]:
    for name, checkout in before.checkouts.items():
        later = now.checkouts.get(name)
        if later is not None and checkout.ref == later.ref == ref:
            yield moves_since(checkout, later)


def _visited(before: Refs, now: Refs) -> set[str]:
    """Return the commits that a HEAD of somebody else stood at meanwhile."""
    visited: set[str] = set()
    for name, checkout in before.checkouts.items():
        later = now.checkouts.get(name)
        if later is not None:
            visited.update(to for _, to in moves_since(checkout, later) or ())
    return visited


def _moved_heads(before: Refs, now: Refs) -> Iterator[str]:
    """Yield the checkouts whose HEAD file changed though nobody switched there."""
    for name, checkout in before.checkouts.items():
        later = now.checkouts.get(name)
        if later is None or later.head == checkout.head or not checkout.head:
            continue
        if moves_since(checkout, later) == []:
            place = name if name == MAIN else f"the worktree {name}"
            yield f"HEAD of {place} was led to {later.head[:200] or 'nothing'}"


def _logged(path: str) -> list[str]:
    lines = [line.split(b" ", 2) for line in read_lines(path)][-_STASHES_MAX:]
    return [parts[1].decode("ascii", "replace") for parts in lines if len(parts) > 2]
