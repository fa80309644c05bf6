"""What the agent and the validator did to the tree: three looks and what they say together.

S0 after the checkout, S1 after the agent, S2 after the validation. The agent's account of itself
is not asked. Whatever could not be looked at is a risk, never an empty list. Nothing is judged
here: status and review are decided elsewhere from these facts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from contracts.errors import CouldNotCheck, FleetError
from contracts.run_agent import Risk
from runagent.around.shared_state import SharedState, read_shared_state, tell_tampering
from runagent.deadline import Deadline
from runagent.evidence.index_flags import read_hidden
from runagent.evidence.snapshot import Snapshot, parse_name_status, take_first_snapshot
from runagent.evidence.tree_evidence import TreeEvidence, TreeState
from runagent.evidence.weighing import Evidence, Look, weigh
from runagent.files.manifest import ManifestBounds
from runagent.git.branches import read_branches, tell_moved
from runagent.git.head import Head, read_head, read_pointer
from runagent.git.shadow_git import ShadowGit
from runagent.process import ProcessRunner
from runagent.sandbox.protocol import GitPlace
from runagent.trees.worktree import Worktree, stands_in_place

LOOK_TIMEOUT_S: Final = 300.0  # one look; 100,000 new files take well under a minute
_OWN_COMMITS_MAX: Final = 10_000


class EvidenceCollector:
    """Looks at one worktree at three moments. Call start, after_agent, after_validation in turn."""

    def __init__(
        self,
        worktree: Worktree,
        *,
        runner: ProcessRunner,
        shadow_dir: str | None = None,
        deadline_s: float = LOOK_TIMEOUT_S,
        git: GitPlace | None = None,
        bounds: ManifestBounds | None = None,
        shared_is_safe: bool = False,
    ) -> None:
        """`deadline_s` and `bounds` bound each look; `shadow_dir` is the one the worktree was made
        with, `git` where the agent's HEAD and refs stand when not in the repository itself.
        `shared_is_safe` says that a box kept the agent from the shared git directory: what changes
        there is somebody else's."""
        self._worktree = worktree
        self._shadow = ShadowGit(shadow_dir or worktree.shadow_dir, worktree.path, runner)
        self._deadline_s = deadline_s
        self._git = git or GitPlace(worktree.admin_dir, worktree.common_dir)
        self._shared_is_safe = shared_is_safe
        self._identity = (0, 0)
        self._shared: SharedState | None = None
        self._branches: dict[str, str] = {}
        self._tree = TreeEvidence(self._shadow, bounds or ManifestBounds())
        self._start: TreeState | None = None
        self._hidden_at_start: frozenset[bytes] = frozenset()
        self._agent: Look | None = None

    def start(self) -> Snapshot:
        """Look at the fresh worktree. Files that differ from the commit already (line ends that
        were never normalised) become part of the start.

        Raises CouldNotCheck: without a start nothing could be said later, so nothing may begin.
        """
        found = os.lstat(self._worktree.path)
        self._identity = (found.st_dev, found.st_ino)
        deadline = Deadline(self._deadline_s)
        start = take_first_snapshot(self._shadow, deadline)
        if start.is_incomplete:
            raise CouldNotCheck(start.problems[0].message)
        if start.changed:
            self._take_as_start(start, deadline)
        if not self._shared_is_safe:
            self._shared = self._read_shared(deadline)
            self._branches = read_branches(self._worktree.common_dir)
        settled = replace(start, changed=(), renames=())  # from here on they are the start
        seen = None if start.changed else self._worktree.seen
        self._start = self._tree.start(settled, deadline, seen)
        self._hidden_at_start = self._hidden_by_index()  # of a sparse checkout
        return start

    def after_agent(self) -> Snapshot:
        """Look at the tree that the agent left. What git cannot tell is a risk of the evidence."""
        self._agent = self._look(self._started())
        return self._agent.state.snapshot

    def after_validation(self, *, is_as_the_agent_left_it: bool = False) -> Evidence:
        """Look at the tree that the validation left and return what all three looks say.

        Without a call of `after_agent` every change counts as the agent's. With
        `is_as_the_agent_left_it` no validation was started, and nothing of the agent's was left
        alive: the look after the agent is then the last one too.
        """
        start = self._started()
        agent = self._agent
        if agent is not None and is_as_the_agent_left_it:
            return weigh(start, agent, agent)
        end = self._look(agent.state if agent else start)
        return weigh(start, agent or end, end)

    def _started(self) -> TreeState:
        if self._start is None:
            raise ValueError("start() comes first")
        return self._start

    def _take_as_start(self, start: Snapshot, deadline: Deadline) -> None:
        base = self._worktree.base_commit
        commit, _ = self._shadow.run(
            ("commit-tree", "-p", base, "-m", "start", start.tree), deadline
        )
        with open(os.path.join(self._shadow.directory, "HEAD"), "wb") as file:
            file.write(commit)

    def _look(self, before: TreeState) -> Look:
        deadline = Deadline(self._deadline_s)
        worktree = self._worktree
        head = read_head(self._git.admin_dir, self._git.common_dir, worktree.branch)
        problems = list(head.risks)
        if self._shared is not None:
            problems.extend(tell_tampering(self._shared, self._read_shared(deadline)))
        committed: set[bytes] = set()
        for commit in head.commits:
            committed |= self._committed(commit, deadline, problems)
        if not self._shared_is_safe:
            problems.extend(self._told_of_branches(head, deadline))
        if self._was_replaced():
            told = "the worktree's folder was replaced"
            problems.append(Risk(code="evidence_incomplete", message=told))
            return Look(before.gone(), head, frozenset(committed), tuple(problems))
        if read_pointer(worktree.path) != worktree.pointer:
            told = "the worktree's .git file is not the one that git wrote"
            problems.append(Risk(code="tampered", message=told))
        state = self._tree.look(before, committed, deadline)
        problems.extend((*state.snapshot.problems, *state.files.manifest.problems))
        hidden = self._hidden_by_index() - self._hidden_at_start
        return Look(state, head, frozenset(committed), tuple(problems), hidden)

    def _hidden_by_index(self) -> frozenset[bytes]:
        id_bytes = len(self._worktree.base_commit) // 2
        return read_hidden(os.path.join(self._git.admin_dir, "index"), id_bytes=id_bytes)

    def _read_shared(self, deadline: Deadline) -> SharedState:
        worktree = self._worktree
        return read_shared_state(self._shadow, worktree.common_dir, worktree.admin_dir, deadline)

    def _told_of_branches(self, head: Head, deadline: Deadline) -> Iterable[Risk]:
        """Other branches that stand at the job's commits. Where git cannot list those, what was
        committed could not be listed either, and that is told."""
        base = self._worktree.base_commit
        if all(commit == base for commit in head.commits):
            return ()
        command = ("rev-list", f"--max-count={_OWN_COMMITS_MAX}", *head.commits, f"^{base}")
        outcome = self._shadow.attempt(command, deadline)
        own = frozenset((*outcome.stdout.decode("ascii", "replace").split(), *head.commits))
        return tell_moved(self._branches, read_branches(self._worktree.common_dir), own - {base})

    def _committed(self, commit: str, deadline: Deadline, problems: list[Risk]) -> set[bytes]:
        if commit == self._worktree.base_commit:
            return set()
        arguments = ("diff-tree", "-r", "-z", "-M", "--name-status", "--ignore-submodules=none")
        try:
            listing, _ = self._shadow.run(
                (*arguments, self._worktree.base_commit, commit), deadline
            )
        except FleetError as error:
            message = f"what was committed could not be listed: {error.message}"
            problems.append(Risk(code="evidence_incomplete", message=message))
            return set()
        return parse_name_status(listing)

    def _was_replaced(self) -> bool:
        # The number alone is not enough: a link made after a removal may get the folder's own.
        if not stands_in_place(self._worktree):
            return True
        try:
            found = os.lstat(self._worktree.path)
        except OSError:
            return True
        return (found.st_dev, found.st_ino) != self._identity
