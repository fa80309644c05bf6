"""The short part of making a worktree, under the repository's lock: names, folder, metadata.

Names are checked before anything is made. Locks of git's own are waited for, within a bound, and
never removed: whoever holds one may be writing.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import threading
from typing import Final, Never

from contracts.errors import CouldNotCheck, RepositoryRefused, Unavailable
from runagent.deadline import Deadline
from runagent.git.trusted_git import Answer, TrustedGit, first_line

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
GIT_LOCK: Final = re.compile(r"'([^'\n]+\.lock)': File exists|could not lock|cannot lock ref")
# Somebody else's `git worktree prune` took git's new folder away before anything stood in it.
_PRUNED: Final = re.compile(r"worktrees/[^'\n]*'[^\n]*: No such file or directory")
PATIENCE_S: Final = 5.0  # git's own locks are held for milliseconds; a stale one for ever
RETRY_S: Final = 0.1
_ROOM_BYTES: Final = 65_536  # a branch, an index and their folders take a block each
_POINTER_MAX_BYTES: Final = 65_536


def refuse_taken_names(git: TrustedGit, branch: str, path: str) -> None:
    """Raise RepositoryRefused when the branch or the folder cannot be made: `branch_in_use`,
    `branch_conflict` (a branch stands where a folder of refs must), `worktree_exists`."""
    ref = f"refs/heads/{branch}"
    parts = ref.split("/")
    parent = "/".join(parts[:-1])  # a job's own: what stands there and below is a line or none
    listed = _refs_at(git, parent)
    if ref in listed:
        holder = _holder(git, ref)
        raise RepositoryRefused(
            f"the branch {branch} exists already"
            + (f", checked out at {holder}" if holder else ""),
            code="branch_in_use",
            remedy="send the job anew: every job has a branch of its own",
        )
    for count in range(3, len(parts)):  # refs/heads is no branch
        shorter = "/".join(parts[:count])
        if shorter in listed or (shorter != parent and git.object_id(shorter)):
            name = shorter.removeprefix("refs/heads/")
            raise RepositoryRefused(
                f"a branch named {name} exists, so {branch} cannot be made",
                code="branch_conflict",
                remedy=f"rename it: git branch -m {name} other-name",
            )
    if any(other.startswith(f"{ref}/") for other in listed):
        raise RepositoryRefused(
            f"branches below {branch} exist, so {branch} cannot be made",
            code="branch_conflict",
            remedy="send the job anew: every job has a branch of its own",
        )
    if os.path.lexists(path):
        raise RepositoryRefused(
            f"{path} exists already", code="worktree_exists", remedy="look at it and remove it"
        )


def make_agents_folder(folder: str, repo: str) -> bool:
    """Make the folder beside the repository that holds job worktrees; say whether it is new.

    It is as open to others as the repository itself, and never writable by them. Raises
    RepositoryRefused (`parent_unwritable`, `no_space`, `folder_is_link`).
    """
    mode = stat.S_IMODE(os.stat(repo).st_mode) & 0o755 | 0o700
    try:
        os.mkdir(folder, mode)
    except FileExistsError:
        _refuse_foreign_folder(folder)
        return False
    except OSError as error:
        raise RepositoryRefused(
            f"the folder {folder} cannot be made: {error.strerror}",
            code="no_space" if error.errno in NO_SPACE else "parent_unwritable",
            remedy="worktrees stand beside the repository: make room and allow writing there",
        ) from error
    return True


def add_worktree(
    git: TrustedGit, *, branch: str, path: str, commit: str, reason: str, deadline: Deadline
) -> None:
    """Make the branch and the empty, locked worktree. `commit` is a full object id.

    Raises RepositoryRefused (`no_space`, `parent_unwritable`, `repo_unwritable`), Unavailable when
    a lock of git's own stays, CouldNotCheck.
    """
    patience = Deadline(min(PATIENCE_S, deadline.left_s()))
    while True:
        answer = git.ask(
            *("worktree", "add", "--quiet", "--no-checkout", "--no-track"),
            *("--lock", "--reason", reason, "-b", branch, "--", path, commit),
        )
        if answer.ok:
            return
        passes = GIT_LOCK.search(answer.error) or _PRUNED.search(answer.error)
        if not passes or patience.is_over():
            _refuse_after(answer, path, git.directory)
        _drop_half_made_branch(git, branch, commit)
        threading.Event().wait(RETRY_S)


def find_admin_dir(common_dir: str, path: str) -> str:
    """Return git's own directory of the worktree at `path`, "" when there is none."""
    name = os.path.basename(path)
    wanted = os.fsencode(os.path.join(path, ".git"))
    parent = os.path.join(common_dir, "worktrees")
    likely = os.path.join(parent, name)
    if _points_at(os.path.join(likely, "gitdir"), wanted):
        return likely  # nearly always, and then no list of a thousand others is read
    try:
        # Git takes the folder's name, with a number behind it when that is taken.
        candidates = sorted(entry for entry in os.listdir(parent) if entry.startswith(name))
    except OSError:
        return ""
    for candidate in candidates:
        if _points_at(os.path.join(parent, candidate, "gitdir"), wanted):
            return os.path.join(parent, candidate)
    return ""


def _points_at(pointer: str, wanted: bytes) -> bool:
    try:
        with open(pointer, "rb") as file:
            return os.path.normcase(file.read(_POINTER_MAX_BYTES).strip()) == os.path.normcase(
                wanted
            )
    except OSError:
        return False


def _refs_at(git: TrustedGit, place: str) -> frozenset[str]:
    """Return the ref named `place` and those below it. Raises CouldNotCheck for one that cannot be
    read: git leaves it out and says so."""
    answer = git.ask("for-each-ref", "--format=%(refname)", place)
    if not answer.ok or "broken ref" in answer.error:
        raise CouldNotCheck(
            f"{place} cannot be read in {git.directory}: {first_line(answer.error)}",
            remedy="run git fsck there",
        )
    return frozenset(answer.out.splitlines())


def _holder(git: TrustedGit, ref: str) -> str:
    holders = [entry["worktree"] for entry in git.worktrees() if entry.get("branch") == ref]
    return holders[0] if holders else ""


def _refuse_foreign_folder(folder: str) -> None:
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise RepositoryRefused(
            f"{folder} is not a folder but a link or a file",
            code="folder_is_link",
            remedy="move it away: worktrees are made in a real folder of that name",
        )


def _has_no_room(folder: str) -> bool:
    """Git says "couldn't write" of a ref that a full disk did not take, and not why."""
    try:
        return shutil.disk_usage(folder).free < _ROOM_BYTES
    except OSError:
        return False


def _drop_half_made_branch(git: TrustedGit, branch: str, commit: str) -> None:
    """Git makes the branch before the worktree, and leaves it when the second step fails."""
    ref = f"refs/heads/{branch}"
    if git.object_id(ref):
        git.ask("update-ref", "-d", ref, commit)


def _refuse_after(answer: Answer, path: str, repo: str) -> Never:
    text = answer.error
    said = first_line(text)
    lock = GIT_LOCK.search(text)
    if lock:
        named = lock.group(1) or "a lock of git's own"
        raise Unavailable(
            f"git is locked: {said}",
            remedy=f"wait for the git process that holds it; if none runs, remove {named}",
        )
    is_full = "No space left" in text or "quota exceeded" in text
    if is_full or _has_no_room(os.path.dirname(path)) or _has_no_room(repo):
        raise RepositoryRefused(
            f"no worktree could be made: {said}", code="no_space", remedy="make room on the disk"
        )
    if "Permission denied" in text or "Read-only file system" in text:
        beside = os.path.dirname(path) in text
        raise RepositoryRefused(
            f"no worktree could be made: {said}",
            code="parent_unwritable" if beside else "repo_unwritable",
            remedy="allow this user to write there",
        )
    raise CouldNotCheck(f"git worktree add failed: {said}", remedy="run git fsck in the repository")
