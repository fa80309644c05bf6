"""Collecting worktrees by the owner's policy: what a crash left first, then what may go.

Each tree is held while something is done to it, and looked at once more right before it goes. A
tree that fails stops nothing else. Removes by the register alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from contracts.clock import Clock
from contracts.errors import FleetError, Refused
from dispatch.config_worktrees import WorktreesSection
from runagent.disk_floor import free_bytes
from runagent.trees.tree_aside import branch_tip
from worker.journal.trees import JournalTrees, TreeRecord
from worker.trees.places import place_of
from worker.trees.removal import TreeRemover
from worker.trees.retention import NO_ROOM, Candidate, Choice, choose, still_goes
from worker.trees.states import TreeState
from worker.trees.survey import TreeSurvey, TreeView

_AGAIN: Final = "gc looks again"
_DAY_S: Final = 86_400.0
_LOOKS_MAX: Final = 100  # half a second each: a listener has jobs to run meanwhile


@dataclass(slots=True)
class Collection:
    """What one collection did, or would do: job ids with the reason."""

    dry_run: bool = False
    stopped: Callable[[], bool] = lambda: False
    removed: list[tuple[str, str]] = field(default_factory=list)
    deleted: list[tuple[str, str]] = field(default_factory=list)
    settled: list[tuple[str, str]] = field(default_factory=list)
    stayed: list[tuple[str, str]] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)


class TreeCollector:
    """Collects the trees of one register."""

    def __init__(
        self,
        trees: JournalTrees,
        survey: TreeSurvey,
        remover: TreeRemover,
        policy: WorktreesSection,
        clock: Clock,
        *,
        free: Callable[[str], int | None] = free_bytes,
    ) -> None:
        """`free` tells the free bytes of a path's volume."""
        self._trees = trees
        self._survey = survey
        self._remover = remover
        self._policy = policy
        self._clock = clock
        self._free = free
        self._next_look = 0

    def collect(
        self,
        *,
        dry_run: bool = False,
        force: bool = False,
        thorough: bool = True,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Collection:
        """Settle, delete what is past its grace, and remove what the policy lets go; with `dry_run`
        only say so. `force` lets uncommitted work go too, past `expire_days`. Not `thorough`: look
        at no tree if none could go, and else at some of them. Ends soon when `stopped()`."""
        done = Collection(dry_run=dry_run, stopped=stopped)
        self._settle_all(done)
        views = self._survey.view_all(look=thorough)
        self._delete_removed([view for view in views if view.state is TreeState.REMOVED], done)
        self._close([view for view in views if view.state is TreeState.REMOVED_BY_OWNER], done)
        gone = (TreeState.REMOVED, TreeState.REMOVED_BY_OWNER)
        standing = {view.record.job: view for view in views if view.state not in gone}
        free = self._least_free(standing.values())
        if not thorough:
            self._look_at_some(standing, free, done)
        candidates = [self._candidate(view) for view in standing.values()]
        for choice in choose(candidates, self._policy, free_bytes=free, force=force):
            self._remove(standing.pop(choice.job).record, choice, done, force=force)
        done.stayed += [(job, why_it_stays(view)) for job, view in standing.items()]
        if not dry_run:
            now = self._clock.wall()
            self._trees.forget_gone(now - self._grace_s())
            self._survey.clear_old_looks(now - _DAY_S)
        return done

    def is_below_floor(self) -> bool:
        """Say whether the disk of a tree has less room than the policy asks for."""
        paths = [record.path for record in self._trees.standing()]
        return any(self._is_below_floor(path) for path in paths)

    def _look_at_some(
        self, standing: dict[str, TreeView], free: int | None, done: Collection
    ) -> None:
        """Look at trees that the policy would let go if all of them were safe, some at a time."""
        hoped = [
            replace(self._candidate(view), is_safe=True, is_committed=True)
            for view in standing.values()
        ]
        if not choose(hoped, self._policy, free_bytes=free):
            return
        jobs = [tree.job for tree in hoped if tree.is_free]
        start = self._next_look % max(1, len(jobs))
        for job in (jobs[start:] + jobs[:start])[:_LOOKS_MAX]:
            if done.stopped():
                return
            self._next_look += 1
            standing[job] = self._survey.view(standing[job].record)

    def _settle_all(self, done: Collection) -> None:
        for record in self._trees.standing():
            if record.is_half_done:
                self._do(record, self._remover.settle, done.settled, "begun, now ended", done)
            elif not record.admin_dir and self._trees.holder(record.job) is None:
                why = "its run was killed while it was made"
                self._do(record, self._remover.adopt_or_forget, done.settled, why, done)

    def _delete_removed(self, views: Iterable[TreeView], done: Collection) -> None:
        """Delete what is past its grace; below the disk's floor what is elsewhere too, at once."""
        now = self._clock.wall()
        for view in views:
            record = view.record
            if now - (record.removed_at or now) >= self._grace_s():
                why = f"removed at least {self._policy.grace_days} days ago"
            elif self._is_below_floor(record.path) and self._survey.is_safe_aside(record):
                why = NO_ROOM
            else:
                continue
            self._do(record, self._remover.delete, done.deleted, why, done)

    def _close(self, views: Iterable[TreeView], done: Collection) -> None:
        """Strike out what the owner removed himself, when its branch is gone too or time is up."""
        for view in views:
            record = view.record
            if view.in_use:
                continue
            is_old = self._clock.wall() - record.made_at >= self._grace_s()
            if is_old or not branch_tip(place_of(record)):
                self._do(record, self._remover.delete, done.settled, "its owner removed it", done)

    def _remove(self, record: TreeRecord, choice: Choice, done: Collection, *, force: bool) -> None:
        def remove(tree: TreeRecord) -> None:
            now = self._candidate(self._survey.view(tree))
            if not still_goes(choice, now, force=force):
                raise Refused("it changed meanwhile", code="changed", remedy=_AGAIN)
            self._remover.remove(tree, choice.why)
            removed = self._trees.find(tree.job)
            if choice.at_once and removed is not None:
                self._remover.delete(removed)

        where = done.deleted if choice.at_once else done.removed
        self._do(record, remove, where, choice.why, done)

    def _do(
        self,
        record: TreeRecord,
        act: Callable[[TreeRecord], None],
        where: list[tuple[str, str]],
        what: str,
        done: Collection,
    ) -> None:
        """Do `act` with a tree in hand that is still what was looked at: between the look and the
        hold a person may have removed it, or brought it back."""
        if done.stopped():
            return
        if not done.dry_run:
            try:
                with self._remover.holding(record):
                    if self._trees.find(record.job) != record:
                        raise Refused("it changed meanwhile", code="changed", remedy=_AGAIN)
                    act(record)
            except FleetError as error:
                done.problems.append((record.job, str(error)))
                return
        where.append((record.job, what))

    def _candidate(self, view: TreeView) -> Candidate:
        return Candidate(
            job=view.record.job,
            age_s=max(0.0, self._clock.wall() - view.record.made_at),
            bytes=view.bytes,
            is_free=view.is_free,
            is_safe=view.is_safe,
            is_committed=view.is_committed,
            is_on_full_disk=self._is_below_floor(view.record.path),
        )

    def _is_below_floor(self, path: str) -> bool:
        free = self._free(path)
        return free is not None and free < self._policy.disk_floor_bytes

    def _least_free(self, views: Iterable[TreeView]) -> int | None:
        known = [self._free(view.record.path) for view in views]
        return min((number for number in known if number is not None), default=None)

    def _grace_s(self) -> float:
        return self._policy.grace_days * _DAY_S


def why_it_stays(view: TreeView) -> str:
    """Return why a tree is not removed, for people."""
    if view.record.kept:
        return f"kept: {view.record.kept}"
    if view.in_use:
        return view.in_use
    if view.ignored_only:
        return "the agent's work is in ignored files alone"
    if view.look is not None and view.look.problems:
        return f"it could not be looked at: {view.look.problems[0]}"
    if not view.is_safe:
        return " and ".join(state.value.replace("_", " ") for state in view.states)
    return "within max_age_days, max_count and max_bytes"
