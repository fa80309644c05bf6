"""Which worktrees go, and why: a pure rule over what was seen. It removes nothing.

A tree goes by itself only when everything in it is elsewhere too, or when it is older than the age
that the owner set for work which is not. Uncommitted work never goes without the owner's word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dispatch.config_worktrees import WorktreesSection

NO_ROOM: Final = "the disk is below disk_floor_bytes, and all of it is elsewhere"
_DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A standing tree. `is_free`: nobody runs or works in it, holds, locks or keeps it."""

    job: str
    age_s: float
    bytes: int
    is_free: bool
    is_safe: bool  # everything in it is elsewhere as well
    is_committed: bool  # nothing in it is uncommitted
    is_on_full_disk: bool = True  # its own volume is below the floor


@dataclass(frozen=True, slots=True)
class Choice:
    """A tree that goes. `at_once`: without a time of grace, since the disk has no room for one.
    `is_expired`: by the age that the owner set for work which is nowhere else."""

    job: str
    why: str
    at_once: bool = False
    is_expired: bool = False


def still_goes(choice: Choice, tree: Candidate, *, force: bool) -> bool:
    """Say whether a tree that was chosen may go as it is now, looked at once more."""
    unharmed = tree.is_safe or (choice.is_expired and (tree.is_committed or force))
    return tree.is_free and unharmed


def choose(
    candidates: Iterable[Candidate],
    policy: WorktreesSection,
    *,
    free_bytes: int | None = None,
    force: bool = False,
) -> tuple[Choice, ...]:
    """Return the trees that go by `policy`, oldest first. `free_bytes` is what the fullest volume
    has left, None when it is not known; `force` lets uncommitted work go as well once it is past
    `expire_days`."""
    oldest_first = sorted(candidates, key=lambda tree: -tree.age_s)
    chosen: dict[str, Choice] = {}
    for tree in oldest_first:
        if tree.is_free and (choice := _by_age(tree, policy, force=force)):
            chosen[tree.job] = choice
    _choose_by_room(oldest_first, policy, chosen, free_bytes)
    _choose_by_count(oldest_first, policy, chosen)
    _choose_by_bytes(oldest_first, policy, chosen)
    return tuple(chosen[tree.job] for tree in oldest_first if tree.job in chosen)


def _by_age(tree: Candidate, policy: WorktreesSection, *, force: bool) -> Choice | None:
    if tree.is_safe and 0 < policy.max_age_days * _DAY_S < tree.age_s:
        why = f"older than {policy.max_age_days} days, and all of it is elsewhere"
        return Choice(tree.job, why)
    is_expired = 0 < policy.expire_days * _DAY_S < tree.age_s
    if is_expired and (tree.is_committed or force):
        why = f"older than the {policy.expire_days} days of expire_days"
        return Choice(tree.job, why, is_expired=True)
    return None


def _choose_by_room(
    trees: Sequence[Candidate],
    policy: WorktreesSection,
    chosen: dict[str, Choice],
    free_bytes: int | None,
) -> None:
    if free_bytes is None:
        return
    for tree in trees:
        if free_bytes >= policy.disk_floor_bytes:
            return
        if _may_go(tree) and tree.is_on_full_disk:
            free_bytes += tree.bytes
            chosen[tree.job] = Choice(tree.job, NO_ROOM, at_once=True)


def _choose_by_count(
    trees: Sequence[Candidate], policy: WorktreesSection, chosen: dict[str, Choice]
) -> None:
    left = len(trees) - len(chosen)
    for tree in trees:
        if not 0 < policy.max_count < left:
            return
        if _may_go(tree) and tree.job not in chosen:
            left -= 1
            why = f"more than {policy.max_count} worktrees, and all of it is elsewhere"
            chosen[tree.job] = Choice(tree.job, why)


def _choose_by_bytes(
    trees: Sequence[Candidate], policy: WorktreesSection, chosen: dict[str, Choice]
) -> None:
    left = sum(tree.bytes for tree in trees if tree.job not in chosen)
    for tree in trees:
        if not 0 < policy.max_bytes < left:
            return
        if _may_go(tree) and tree.job not in chosen:
            left -= tree.bytes
            why = f"worktrees hold more than {policy.max_bytes} bytes, and all of it is elsewhere"
            chosen[tree.job] = Choice(tree.job, why)


def _may_go(tree: Candidate) -> bool:
    return tree.is_free and tree.is_safe
