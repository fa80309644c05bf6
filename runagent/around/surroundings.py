"""What lies around a job's worktree, before and after: did anything change that is not the job's?

Refs, shared settings and hooks, other worktrees, the main checkout, and the watched files of this
machine. Nobody can see who changed a file, so drift says "changed during the job": it is a risk
where the agent could have written, and a note where the box made that impossible. Owners and other
jobs work on meanwhile; what their commits, fetches and pushes explain is not told. What was planted
for the owner's next git command is told apart. It must never run git on the repository.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from contracts.run_agent import Risk
from contracts.sandbox import Capability
from runagent.around.main_checkout import CheckoutFiles, changed_files, read_main_checkout
from runagent.around.planted import tell_planted
from runagent.around.refs import Refs, owner_moves, read_refs, tell_moved_refs
from runagent.around.shared_state import SharedState, read_shared_state, tell_tampering
from runagent.around.siblings import Sibling, read_siblings, tell_changed_siblings
from runagent.around.watched import WatchList, read_watched, tell_changed
from runagent.deadline import Deadline
from runagent.git.head import read_head
from runagent.git.ignore_rules import IgnoreRules, try_rules
from runagent.git.shadow_git import ShadowGit
from runagent.process import EndState, ProcessRunner
from runagent.sandbox.protocol import GitPlace
from runagent.trees.worktree import Worktree

_NAMED: Final = 10
_OWN_COMMITS_MAX: Final = 10_000
_MOVES_MAX: Final = 50
_NULL: Final = "0"


@dataclass(frozen=True, slots=True)
class Around:
    """What changed around the worktree: what asks for a look, what is only worth knowing, and what
    was planted for the owner's git (settings as `file: key`, hooks by name)."""

    risks: tuple[Risk, ...] = ()
    notes: tuple[Risk, ...] = ()
    planted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _State:
    refs: Refs
    shared: SharedState
    siblings: dict[str, Sibling]
    checkout: CheckoutFiles
    watched: dict[str, str]


class Surroundings:
    """Looks around one worktree. Call start before the agent, after_job when all has ended."""

    def __init__(
        self,
        worktree: Worktree,
        *,
        runner: ProcessRunner,
        git: GitPlace,
        enforces: frozenset[Capability],
        watch_list: WatchList,
        excludes: Sequence[str],
        deadline_s: float,
        pause: Callable[[], object],
    ) -> None:
        """`git` is where the agent's HEAD and refs stand, `enforces` what the box around it holds,
        `excludes` the owner's own ignore files. `pause` lets a moment pass: what others are in the
        middle of is looked at once more."""
        self._pause = pause
        self._worktree = worktree
        self._git = git
        self._enforces = enforces
        self._watch_list = watch_list
        self._excludes = (os.path.join(worktree.common_dir, "info", "exclude"), *excludes)
        self._deadline_s = deadline_s
        self._shadow = ShadowGit(worktree.shadow_dir, worktree.path, runner)
        self._rules = IgnoreRules(self._shadow, runner)
        self._no_rules = ""
        self._before: _State | None = None

    def start(self, entries: Mapping[bytes, bytes] | None = None) -> None:
        """Look before the agent does anything. `entries` are the files of the base commit where
        they are known: path -> mode and object id."""
        deadline = Deadline(self._deadline_s)
        commit = self._worktree.base_commit
        self._no_rules = try_rules(self._rules, commit, self._excludes, deadline, entries)
        self._before = self._read(deadline, after=False)

    def after_job(self) -> Around:
        """Look when agent and validator have ended and what was committed stands in its place."""
        if self._before is None:
            return Around()
        around = self._compare(self._before)
        if around.risks:
            self._pause()
            around = self._compare(self._before)
        return around

    def _compare(self, before: _State) -> Around:
        deadline = Deadline(self._deadline_s)
        now = self._read(deadline, after=True)
        risks: list[Risk] = []
        notes: list[Risk] = []
        writes = {Capability.WRITES}
        edits = set() if self._watch_list.checkout_is_noted else writes
        for told, needed in (
            (self._about_refs(before, now, deadline), {Capability.GIT}),
            (self._about_siblings(before, now), {Capability.GIT}),
            (self._about_checkout(before, now, deadline), edits),
            (self._about_watched(before, now), writes | {Capability.AGENT_SETTINGS}),
        ):
            (notes if needed <= self._enforces else risks).extend(told)
        notes.extend(self._only_noted(before, now))
        if Capability.GIT in self._enforces:
            notes.extend(tell_tampering(before.shared, now.shared))
            return Around(tuple(risks), tuple(notes))
        return Around(tuple(risks), tuple(notes), tell_planted(before.shared, now.shared))

    def _read(self, deadline: Deadline, *, after: bool) -> _State:
        worktree = self._worktree
        return _State(
            refs=read_refs(worktree, after=after),
            shared=read_shared_state(
                self._shadow, worktree.common_dir, worktree.admin_dir, deadline
            ),
            siblings=read_siblings(worktree, self._shadow, deadline),
            checkout=self._read_checkout(deadline),
            watched=read_watched(self._watch_list.paths),
        )

    def _read_checkout(self, deadline: Deadline) -> CheckoutFiles:
        if self._no_rules:
            return CheckoutFiles({}, self._no_rules)
        return read_main_checkout(self._worktree.repo, self._rules, deadline)

    def _about_refs(self, before: _State, now: _State, deadline: Deadline) -> Iterable[Risk]:
        told = tell_moved_refs(
            before.refs,
            now.refs,
            own_branch=self._worktree.branch,
            own_commits=self._own_commits(deadline),
            leads_to=lambda old, new: self._leads_to(old, new, deadline),
        )
        return _drift("ref_moved", "refs of the repository were changed during the job", told)

    @staticmethod
    def _about_siblings(before: _State, now: _State) -> Iterable[Risk]:
        told = tell_changed_siblings(before.siblings, now.siblings)
        return _drift("sibling_changed", "other worktrees were changed during the job", told)

    def _about_checkout(self, before: _State, now: _State, deadline: Deadline) -> Iterable[Risk]:
        changed = changed_files(before.checkout, now.checkout)
        if not changed:
            return ()
        by_owner = self._committed_by_owner(before, now, deadline)
        shown = [
            path.decode("utf-8", "backslashreplace") for path in changed if path not in by_owner
        ]
        return _drift(
            "checkout_changed", f"files in {self._worktree.repo} were changed during the job", shown
        )

    @staticmethod
    def _about_watched(before: _State, now: _State) -> Iterable[Risk]:
        told = tell_changed(before.watched, now.watched)
        return _drift("outside_changed", "watched files were changed during the job", told)

    def _only_noted(self, before: _State, now: _State) -> Iterable[Risk]:
        moves = owner_moves(before.refs, now.refs)
        if moves:
            message = f"the main checkout went from {moves[0][0][:12]} to {moves[-1][1][:12]}"
            yield Risk(code="checkout_moved", message=f"{message} during the job")
        partly = before.checkout.partly or now.checkout.partly
        if partly:
            message = f"the main checkout was compared in part: {partly}"
            yield Risk(code="checkout_partly_seen", message=message)

    def _committed_by_owner(
        self, before: _State, now: _State, deadline: Deadline
    ) -> frozenset[bytes]:
        """Return the paths that moves of the main checkout's HEAD explain."""
        paths: set[bytes] = set()
        for old, new in owner_moves(before.refs, now.refs)[-_MOVES_MAX:]:
            if old.strip(_NULL) and new.strip(_NULL) and old != new:
                command = ("diff-tree", "-r", "-z", "--no-renames", "--name-only", old, new)
                outcome = self._shadow.attempt(command, deadline)
                paths.update(outcome.stdout.split(b"\0"))
        return frozenset(paths)

    def _own_commits(self, deadline: Deadline) -> frozenset[str]:
        base = self._worktree.base_commit
        head = read_head(self._git.admin_dir, self._git.common_dir, self._worktree.branch)
        if all(commit == base for commit in head.commits):
            return frozenset()
        command = ("rev-list", f"--max-count={_OWN_COMMITS_MAX}", *head.commits, f"^{base}")
        outcome = self._shadow.attempt(command, deadline)
        listed = outcome.stdout.decode("ascii", "replace").split()
        return frozenset((*listed, *head.commits)) - {base}

    def _leads_to(self, old: str, new: str, deadline: Deadline) -> bool:
        outcome = self._shadow.attempt(("merge-base", "--is-ancestor", old, new), deadline)
        return outcome.state is EndState.EXITED and outcome.exit_code == 0


def _drift(code: str, what: str, told: Sequence[str]) -> Iterable[Risk]:
    if not told:
        return ()
    more = f" and {len(told) - _NAMED} more" if len(told) > _NAMED else ""
    named = ", ".join(told[:_NAMED])
    return (Risk(code=code, message=f"{what}, by somebody: {named}{more}"),)
