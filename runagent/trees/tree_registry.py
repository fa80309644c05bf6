"""Where worktrees are written down as ours: before they are made, when they stand, when they go.

Whatever removes a worktree later works from this register and never from git's own list, which an
agent can write to. The intent is written first, so that a tree of a run that was killed while it
was being made is found as well.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final, Protocol

from contracts.errors import CouldNotCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTree:
    """A worktree that is about to be made. `repo` and `common_dir` are free of links."""

    job_id: str
    path: str
    repo: str
    common_dir: str
    branch: str  # without refs/heads/
    base_commit: str
    ticket: str


class TreeRegistry(Protocol):
    """Writes worktrees down; every method may raise Unavailable or CouldNotCheck."""

    def plan(self, tree: PlannedTree) -> None:
        """Write down that `tree` is about to be made, and hold it for this process; on disk when
        this returns."""
        ...

    def stands(self, job_id: str, *, admin_dir: str, identity: str) -> None:
        """Write down that the tree stands: its own git directory, and `identity_of` its folder."""
        ...

    def leave(self, job_id: str) -> None:
        """Let go of a tree whose run has ended; it stays ours."""
        ...

    def forget(self, job_id: str) -> None:
        """Strike out a tree of which nothing is left."""
        ...


class NoTreeRegistry:
    """Writes nothing down."""

    def plan(self, tree: PlannedTree) -> None:
        """See TreeRegistry.plan."""

    def stands(self, job_id: str, *, admin_dir: str, identity: str) -> None:
        """See TreeRegistry.stands."""

    def leave(self, job_id: str) -> None:
        """See TreeRegistry.leave."""

    def forget(self, job_id: str) -> None:
        """See TreeRegistry.forget."""


NO_REGISTRY: Final = NoTreeRegistry()


def identity_of(path: str) -> str:
    """Return what tells the folder `path` from another one put in its place: its inode. Device
    numbers are left out, because some change at a reboot. Raises OSError."""
    return str(os.lstat(path).st_ino)


def identity_of_new(path: str) -> str:
    """Return the same of a folder that was just made. Raises CouldNotCheck."""
    try:
        return identity_of(path)
    except OSError as error:
        raise CouldNotCheck(f"the new worktree {path} cannot be read: {error.strerror}") from error
