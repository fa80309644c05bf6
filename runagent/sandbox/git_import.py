"""Taking home what was committed in a box: objects checked, then the job's ref moved, nothing else.

The host packs the new commits from the private objects with a git directory of its own, and checks
the pack (every object parsed, hashed anew and connected) against the real store alone. Only a pack
that passes is put there. What the agent wrote is read as objects and refs, never as configuration.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from typing import Final

from contracts.errors import CouldNotCheck, FleetError, Unavailable
from contracts.run_agent import Risk
from runagent.branches import read_branches
from runagent.deadline import Deadline
from runagent.head import read_head, resolve_ref
from runagent.process import ProcessRunner
from runagent.repo_lock import hold_repo_lock
from runagent.sandbox.git_layer import GitLayer, write_alternates
from runagent.shadow_git import ShadowGit
from runagent.trusted_git import TrustedGit

_OBJECT_ID: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_LOCK_S: Final = 60.0
_NAMED: Final = 10


class GitImport:
    """What of one box's commits came home. `folder` is for the host's own git directory."""

    def __init__(self, layer: GitLayer, folder: str, runner: ProcessRunner) -> None:
        self._layer = layer
        self._git = ShadowGit(folder, layer.worktree.path, runner)
        self._home = layer.worktree.base_commit  # where the job's real ref stands
        self._taken: set[str] = {layer.worktree.base_commit}
        self._branches = read_branches(layer.folder)

    @property
    def is_complete(self) -> bool:
        """Say whether every commit that HEAD or the job's branch holds has come home."""
        head = self._head()
        return self._taken.issuperset(head)

    def take(self, deadline_s: float) -> None:
        """Take HEAD's and the branch's commits home and move the job's ref.

        Raises CouldNotCheck or Unavailable when something of it cannot be taken; then the ref
        stands where it stood.
        """
        commits = [commit for commit in self._head() if commit not in self._taken]
        deadline = Deadline(deadline_s)
        try:
            if commits:
                self._make_git()
                self._put(self._pack(commits, deadline))
                self._taken.update(commits)
            self._move_ref(deadline)
        except OSError as error:
            raise CouldNotCheck(f"commits could not be taken home: {error.strerror}") from error

    def moved_branches(self) -> list[str]:
        """Return the branches beside the job's own that moved in the box, and nowhere else."""
        before, now = self._branches, read_branches(self._layer.folder)
        return [ref for ref in sorted({*now, *before}) if now.get(ref) != before.get(ref)]

    def _head(self) -> tuple[str, ...]:
        layer = self._layer
        return read_head(layer.admin_dir, layer.folder, layer.worktree.branch).commits

    def _make_git(self) -> None:
        folder = self._git.directory
        for name in ("", "objects", "objects/info", "objects/pack", "refs", "no-hooks", "out"):
            os.makedirs(os.path.join(folder, name), mode=0o700, exist_ok=True)
        shadow = self._layer.worktree.shadow_dir
        shutil.copyfile(os.path.join(shadow, "config"), os.path.join(folder, "config"))
        shallow = os.path.join(shadow, "shallow")
        if os.path.isfile(shallow):
            shutil.copyfile(shallow, os.path.join(folder, "shallow"))
        for name, text in (("HEAD", self._layer.worktree.base_commit + "\n"), ("empty", "")):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(text)

    def _pack(self, commits: list[str], deadline: Deadline) -> str:
        """Return the path, without its ending, of a checked pack of `commits`."""
        layer, objects = self._layer, os.path.join(self._git.directory, "objects")
        write_alternates(objects, [*layer.alternates, layer.objects])
        wanted = [*commits, *(f"^{commit}" for commit in sorted(self._taken))]
        prefix = os.path.join(self._git.directory, "out", "pack")
        arguments = ("pack-objects", "--quiet", "--revs", "--delta-base-offset", prefix)
        # No bitmap, no delta islands, no hidden config: the directory is the host's own.
        printed, _ = self._git.run(
            arguments, deadline, stdin="".join(f"{line}\n" for line in wanted).encode()
        )
        name = printed.decode("ascii", "replace").strip()
        if not _OBJECT_ID.fullmatch(name):
            raise CouldNotCheck("git pack-objects named no pack")
        write_alternates(objects, layer.alternates)  # what is checked must stand on these alone
        pack = f"{prefix}-{name}"
        os.unlink(f"{pack}.idx")
        self._git.run(("index-pack", "--strict", "-o", f"{pack}.idx", f"{pack}.pack"), deadline)
        return pack

    def _put(self, pack: str) -> None:
        """Put a checked pack into the real store, its index last: git reads no pack without one."""
        folder = os.path.join(self._layer.worktree.common_dir, "objects", "pack")
        os.makedirs(folder, exist_ok=True)
        for ending in (".pack", ".idx"):
            target = os.path.join(folder, os.path.basename(pack) + ending)
            if os.path.exists(target):
                continue
            half = f"{os.path.join(folder, 'tmp_')}{os.path.basename(pack)}{ending}"
            shutil.copyfile(pack + ending, half)
            with open(half, "rb+") as file:
                os.fsync(file.fileno())
            os.chmod(half, 0o444)
            os.rename(half, target)

    def _move_ref(self, deadline: Deadline) -> None:
        layer, worktree = self._layer, self._layer.worktree
        ref = f"refs/heads/{worktree.branch}"
        tip = resolve_ref(ref, layer.folder)
        if tip in ("", self._home):
            return
        if tip not in self._taken:
            raise CouldNotCheck(f"{ref} of the box holds no commit")
        with hold_repo_lock(worktree.common_dir, min(_LOCK_S, deadline.left_s())):
            TrustedGit(worktree.repo).tell(
                *("update-ref", "-m", "fleet-dispatch: the job's commits"), ref, tip, self._home
            )
        self._home = tip
        self._write_index(tip, deadline)

    def _write_index(self, tip: str, deadline: Deadline) -> None:
        """Let the worktree's real index say what its new commit says: the agent's own index may
        name objects that did not come home."""
        own = os.path.join(self._layer.worktree.admin_dir, "index")
        shutil.copyfile(own, self._git.index_path)
        # -i: the files of the tree are the agent's; whether they match is not asked here.
        self._git.run(("read-tree", "-i", "-m", tip), deadline)
        shutil.copyfile(self._git.index_path, own + ".new")
        os.replace(own + ".new", own)


def sweep(objects: str) -> None:
    """Remove what is no plain file from a folder of private objects: a pipe in the place of an
    object would hold whoever reads it. Links are removed, not followed, and `objects` itself is
    left alone when it is one: what it leads to is not ours. Raises OSError."""
    for _, folders, names, place in os.fwalk(objects, follow_symlinks=False):
        for name in (*folders, *names):
            mode = os.stat(name, dir_fd=place, follow_symlinks=False).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                os.unlink(name, dir_fd=place)


def take_home(git: GitImport, deadline_s: float) -> tuple[Risk, ...]:
    """Take home what can be taken; return what could not, and what was left behind on purpose."""
    risks = []
    try:
        git.take(deadline_s)
    except (FleetError, Unavailable) as error:
        risks.append(
            Risk(
                code="commits_not_taken",
                message=f"what was committed stayed in the box: {error.message}",
            )
        )
    moved = git.moved_branches()
    if moved:
        named = ", ".join(moved[:_NAMED])
        more = f" and {len(moved) - _NAMED} more" if len(moved) > _NAMED else ""
        risks.append(
            Risk(
                code="branches_left_behind",
                message=f"other branches than the job's moved in the box alone: {named}{more}",
            )
        )
    return tuple(risks)
