"""A worktree put aside whole: its folder, its branch and its git directory, and brought back.

Owns the places and the git side of it. The folder is renamed on its own volume, its commits are
held by refs of ours so that no `git gc` collects them, git's directory of the worktree goes to a
place that git does not look at. Every function may be called again after a crash in the middle.
It must never use git's own removal, follow a link, or touch a branch that somebody moved.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from contracts.errors import CouldNotCheck, Unavailable
from runagent.deadline import Deadline
from runagent.git.head import Head, read_head, read_line
from runagent.git.trusted_git import Answer, TrustedGit, first_line
from runagent.trees.tree_removal import move_child, remove_child, remove_if_empty
from runagent.trees.worktree_metadata import GIT_LOCK, PATIENCE_S, RETRY_S

# Below `{repo}-agents`, so that it is on the same volume even if that folder is a volume's root.
# No job id begins with a dot.
ASIDE_FOLDER: Final = ".removed"
ADMIN_FOLDER: Final = "fleet-dispatch-removed"  # below the common git directory
PIN_PREFIX: Final = "refs/fleet-dispatch/removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreePlace:
    """Where a worktree is and what git knows it by."""

    job_id: str
    path: str
    repo: str
    common_dir: str
    admin_dir: str
    branch: str
    identity: str

    @property
    def aside(self) -> str:
        """Return where the folder goes when it is removed."""
        return os.path.join(os.path.dirname(self.path), ASIDE_FOLDER, os.path.basename(self.path))

    @property
    def admin_aside(self) -> str:
        """Return where git's directory of the worktree goes."""
        return os.path.join(self.common_dir, ADMIN_FOLDER, self.job_id)

    @property
    def has_repository(self) -> bool:
        """Say whether the repository is still there."""
        return os.path.isdir(self.common_dir)


def heads_of(place: TreePlace) -> Head:
    """Return where the worktree's HEAD and its branch stand, read from git's files."""
    admin = place.admin_aside if os.path.isdir(place.admin_aside) else place.admin_dir
    return read_head(admin, place.common_dir, place.branch)


def branch_tip(place: TreePlace) -> str:
    """Return the commit at which the branch stands, "" when there is no such branch."""
    if not place.has_repository:
        return ""
    return TrustedGit(place.repo).object_id(f"refs/heads/{place.branch}")


def put_folder_aside(place: TreePlace) -> None:
    """Rename the folder aside. Raises OSError."""
    parent, name = os.path.split(place.path)
    aside_parent = os.path.dirname(place.aside)
    if not os.path.isdir(aside_parent):
        os.mkdir(aside_parent, 0o700)
    move_child(parent, name, aside_parent, name, identity=place.identity)


def bring_folder_back(place: TreePlace) -> None:
    """Rename the folder back to where it was made. Raises OSError."""
    aside_parent, name = os.path.split(place.aside)
    move_child(aside_parent, name, os.path.dirname(place.path), name, identity=place.identity)
    remove_if_empty(aside_parent)


def pin_commits(place: TreePlace, commits: Iterable[str]) -> None:
    """Hold `commits` by refs of ours. One that is not there cannot be held and is passed over.

    Raises Unavailable when a lock of git's own stays, CouldNotCheck.
    """
    git = TrustedGit(place.repo)
    for number, commit in enumerate(commits):
        if git.commit_of(commit):
            _tell(git, "update-ref", f"{PIN_PREFIX}/{place.job_id}/{number}", commit)


def unpin_commits(place: TreePlace) -> None:
    """Let the held commits go."""
    git = TrustedGit(place.repo)
    prefix = f"{PIN_PREFIX}/{place.job_id}/"
    for ref in git.tell("for-each-ref", "--format=%(refname)", prefix).splitlines():
        _tell(git, "update-ref", "-d", ref)


def hide_admin_dir(place: TreePlace) -> None:
    """Take the worktree's own git directory to where git does not look. Raises OSError."""
    if not place.admin_dir or not os.path.isdir(place.admin_dir):
        return
    folder = os.path.join(place.common_dir, ADMIN_FOLDER)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    parent, name = os.path.split(place.admin_dir)
    move_child(parent, name, folder, place.job_id)
    remove_if_empty(parent)


def drop_branch(place: TreePlace, head_commit: str) -> None:
    """Delete the branch while it stands at `head_commit` and no other worktree has it checked out.

    Raises Unavailable when a lock of git's own stays, CouldNotCheck.
    """
    git = TrustedGit(place.repo)
    ref = f"refs/heads/{place.branch}"
    if head_commit and git.object_id(ref) == head_commit and not _is_checked_out(place, ref):
        _tell(git, "update-ref", "-d", ref, head_commit)


def bring_branch_back(place: TreePlace, head_commit: str) -> None:
    """Make the branch again if there is none. Raises Unavailable or CouldNotCheck."""
    git = TrustedGit(place.repo)
    ref = f"refs/heads/{place.branch}"
    if head_commit and not git.object_id(ref):
        _tell(git, "update-ref", ref, head_commit, "0" * len(head_commit))


def show_to_git(place: TreePlace) -> None:
    """Bring the worktree's git directory back. Raises OSError."""
    if not os.path.isdir(place.admin_aside):
        return
    _drop_ownerless_locks(place.admin_aside)
    parent, name = os.path.split(place.admin_dir)
    os.makedirs(parent, exist_ok=True)
    folder = os.path.dirname(place.admin_aside)
    move_child(folder, place.job_id, parent, name)
    remove_if_empty(folder)


def _drop_ownerless_locks(folder: str) -> None:
    """Remove git's locks in a directory that was taken out of its sight. Whoever made one there (an
    owner's `git gc` locks the HEAD of every worktree for a moment) looks for it where it made it,
    and can neither use nor remove it any more; the tree would come back locked for ever."""
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if name.endswith(".lock") and stat.S_ISREG(os.lstat(path).st_mode):
                os.unlink(path)


def delete_for_good(place: TreePlace) -> None:
    """Delete what was put aside: the folder, git's directory of it, the refs that held its commits.

    Raises OSError when something of it stays, Unavailable or CouldNotCheck.
    """
    aside_parent, name = os.path.split(place.aside)
    if os.path.isdir(aside_parent) and not os.path.islink(aside_parent):
        remove_child(aside_parent, name)
        remove_if_empty(aside_parent)
        remove_if_empty(os.path.dirname(aside_parent))
    if place.has_repository:
        folder = os.path.join(place.common_dir, ADMIN_FOLDER)
        if os.path.isdir(folder) and not os.path.islink(folder):
            remove_child(folder, place.job_id)
            remove_if_empty(folder)
        unpin_commits(place)


def _is_checked_out(place: TreePlace, ref: str) -> bool:
    """Say whether the main checkout or another worktree stands on `ref`."""
    heads = [os.path.join(place.common_dir, "HEAD")]
    others = os.path.join(place.common_dir, "worktrees")
    names = os.listdir(others) if os.path.isdir(others) else []
    heads += [
        os.path.join(others, name, "HEAD")
        for name in names
        if os.path.join(others, name) != place.admin_dir
    ]
    return any(read_line(head) == f"ref: {ref}" for head in heads)


def _tell(git: TrustedGit, *arguments: str) -> None:
    """Run a command that writes refs; a lock of git's own is waited for and never broken."""
    patience = Deadline(PATIENCE_S)
    while True:
        answer = git.ask(*arguments)
        if answer.ok:
            return
        if not GIT_LOCK.search(answer.error) or patience.is_over():
            raise _failure(answer, git.directory)
        threading.Event().wait(RETRY_S)


def _failure(answer: Answer, repo: str) -> Unavailable | CouldNotCheck:
    said = first_line(answer.error)
    if GIT_LOCK.search(answer.error):
        return Unavailable(
            f"git is locked in {repo}: {said}",
            remedy="wait for the git process that holds it; then fleet-dispatch worktrees gc",
        )
    return CouldNotCheck(f"a ref cannot be written in {repo}: {said}", remedy="run git fsck there")
