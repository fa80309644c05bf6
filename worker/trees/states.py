"""What a worktree is now, in one or several words, from facts that others gathered. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class TreeState(StrEnum):
    """The first that holds is the one that counts; a tree may be in several."""

    REMOVED = "removed"  # by us, and can be restored
    REMOVED_BY_OWNER = "removed_by_owner"
    RUNNING = "running"
    IN_USE = "in_use"  # the run is over, and something else works in it
    LOCKED = "locked"
    ORPHANED = "orphaned"  # its repository or its git directory is gone, or it is another folder
    UNKNOWN = "unknown"  # it could not be looked at
    LANDED = "landed"
    AWAITING_REVIEW = "awaiting_review"
    DIRTY = "dirty"
    UNPUSHED = "unpushed"
    CLEAN = "clean"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFacts:
    """What is known of a tree. The last four count only for one that was looked at."""

    is_removed: bool = False
    is_missing: bool = False
    is_running: bool = False
    is_in_use: bool = False
    is_locked: bool = False
    is_orphaned: bool = False
    was_looked_at: bool = False
    has_failed: bool = False  # the job ended, and not as completed
    has_landed: bool = False
    is_dirty: bool = False
    is_unpushed: bool = False


def states_of(facts: TreeFacts) -> tuple[TreeState, ...]:
    """Return the states of a tree, the one that counts first."""
    if facts.is_removed:
        return (TreeState.REMOVED,)
    if facts.is_missing:
        return (TreeState.REMOVED_BY_OWNER,)
    holds_work = facts.is_dirty or facts.is_unpushed
    looked = facts.was_looked_at
    claims = {
        TreeState.RUNNING: facts.is_running,
        TreeState.IN_USE: facts.is_in_use and not facts.is_running,
        TreeState.LOCKED: facts.is_locked and not facts.is_running,
        TreeState.ORPHANED: facts.is_orphaned,
        TreeState.UNKNOWN: not (looked or facts.is_running or facts.is_in_use or facts.is_orphaned),
        TreeState.LANDED: looked and facts.has_landed,
        TreeState.AWAITING_REVIEW: looked
        and holds_work
        and not facts.has_landed
        and not facts.has_failed,
        TreeState.DIRTY: looked and facts.is_dirty,
        TreeState.UNPUSHED: looked and facts.is_unpushed,
        TreeState.CLEAN: looked and not holds_work,
    }
    return tuple(state for state, holds in claims.items() if holds)
