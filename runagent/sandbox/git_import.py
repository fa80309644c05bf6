"""Taking home what was committed in a box: objects checked, then the job's ref moved, nothing else.

The host packs the new commits from the private objects with a git directory of its own, and checks
the pack (every object parsed, hashed anew and connected) against the real store alone. Only a pack
that passes is put there. What the agent wrote is read as objects and refs, never as configuration.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from dataclasses import replace
from typing import Final

from contracts.errors import CouldNotCheck, FleetError
from contracts.run_agent import Risk
from runagent.deadline import Deadline
from runagent.git.branches import read_branches
from runagent.git.head import read_head, resolve_ref
from runagent.git.repo_lock import hold_repo_lock
from runagent.git.shadow_git import ShadowGit
from runagent.git.trusted_git import TrustedGit
from runagent.process import ProcessRunner
from runagent.sandbox.box_facts import BoxFacts, write_facts
from runagent.sandbox.git_layer import GitLayer, write_alternates
from validation.inert import one_line

_OBJECT_ID: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_LOCK_S: Final = 60.0
_NAMED: Final = 10


class GitImport:
    """What of one box's commits came home. `folder` is for the host's own git directory."""

    def __init__(
        self, layer: GitLayer, folder: str, runner: ProcessRunner, facts: BoxFacts
    ) -> None:
        """`facts` are what is written down of the box, by this run or by one that was lost."""
        self._layer = layer
        self._git = ShadowGit(folder, layer.worktree.path, runner)
        self._facts = facts
        self._home = _where_the_ref_stands(facts)
        self._taken: set[str] = {layer.worktree.base_commit, self._home}
        self._has_index = False
        self._is_whole = True

    @property
    def source(self) -> str:
        """Return the git directory of the box."""
        return self._layer.folder

    @property
    def is_complete(self) -> bool:
        """Say whether every commit that HEAD or the job's branch holds has come home, and nothing
        of the last try failed."""
        return self._is_whole and self._taken.issuperset(self._head())

    def take(self, deadline_s: float) -> None:
        """Take HEAD's and the branch's commits home and move the job's ref.

        Raises CouldNotCheck or Unavailable when something of it cannot be taken; then the ref
        stands where it stood.
        """
        commits = [commit for commit in self._head() if commit not in self._taken]
        deadline = Deadline(deadline_s)
        self._is_whole = False
        try:
            if commits:
                self._make_git()
                self._put(self._pack(commits, deadline))
                self._taken.update(commits)
            self._move_ref(deadline)
        except OSError as error:
            raise CouldNotCheck(f"commits could not be taken home: {error.strerror}") from error
        self._is_whole = True

    def moved_branches(self) -> list[str]:
        """Return the branches beside the job's own that moved in the box, and nowhere else."""
        before, now = self._facts.branches, read_branches(self._layer.folder)
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
        write_alternates(os.path.join(folder, "objects"), self._layer.alternates)

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
            with contextlib.suppress(FileNotFoundError):
                os.unlink(half)  # of a run that was killed here: it cannot be written any more
            shutil.copyfile(pack + ending, half)
            with open(half, "rb+") as file:
                os.fsync(file.fileno())
            os.chmod(half, 0o444)
            os.rename(half, target)

    def _move_ref(self, deadline: Deadline) -> None:
        layer, worktree = self._layer, self._layer.worktree
        ref = f"refs/heads/{worktree.branch}"
        tip = resolve_ref(ref, layer.folder)
        if not tip or tip == self._home == worktree.base_commit:
            return
        if tip not in self._taken:
            raise CouldNotCheck(f"{ref} of the box holds no commit")
        if tip == self._home:
            if not self._has_index:  # the run was lost between its ref and its index
                self._make_git()
                self._write_index(tip, deadline)
            return
        # Before the ref moves: whoever finds it there later must know that it was us.
        self._facts = replace(self._facts, stood_at=(*self._facts.stood_at, tip))
        write_facts(os.path.dirname(layer.folder), self._facts)
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
        self._has_index = True


def _where_the_ref_stands(facts: BoxFacts) -> str:
    """Return where the job's real ref stands by what the host did to it. One that somebody else
    moved is at none of these places, and then the compare-and-swap fails."""
    now = resolve_ref(f"refs/heads/{facts.worktree.branch}", facts.worktree.common_dir)
    return now if now in facts.stood_at else facts.worktree.base_commit


def sweep(objects: str) -> None:
    """Remove what is no plain file from a folder of private objects: a pipe in the place of an
    object would hold whoever reads it. Links are removed, not followed, and `objects` itself is
    left alone when it is one: what it leads to is not ours. Raises OSError."""
    for _, folders, names, place in os.fwalk(objects, follow_symlinks=False):
        for name in (*folders, *names):
            mode = os.stat(name, dir_fd=place, follow_symlinks=False).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                os.unlink(name, dir_fd=place)


def not_taken(folder: str, why: str) -> Risk:
    """Return the risk of commits that stayed in the box's git directory `folder`."""
    told = f"what was committed stayed in the box and is kept in {folder}: {one_line(why, 500)}"
    return Risk(code="commits_not_taken", message=told)


def take_home(git: GitImport, deadline_s: float) -> tuple[Risk, ...]:
    """Take home what can be taken; return what could not, and what was left behind on purpose."""
    risks = []
    try:
        git.take(deadline_s)
    except FleetError as error:
        risks.append(not_taken(git.source, error.message))
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
