"""Everything that is needed to see and remove worktrees, put together from a host's settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from contracts.clock import Clock
from contracts.errors import InvalidRequest, Problem, Refused
from runagent.process import ProcessRunner
from worker.journal.journal import Journal
from worker.journal.trees import TreeRecord
from worker.settings import HostSettings
from worker.trees.collector import TreeCollector
from worker.trees.removal import TreeRemover, take_no_notice
from worker.trees.states import TreeState
from worker.trees.survey import TreeSurvey, TreeView


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeDesk:
    """The trees of one journal, and what can be done with them."""

    journal: Journal
    survey: TreeSurvey
    remover: TreeRemover
    collector: TreeCollector

    def find(self, job_id: str) -> TreeRecord:
        """Return the record of a job's tree; `job_id` may be the start of one.

        Raises InvalidRequest when there is none, or more than one.
        """
        exact = self.journal.trees.find(job_id)
        if exact is not None:
            return exact
        records = [x for x in self.journal.trees.standing() if x.job.startswith(job_id)]
        if len(records) == 1 and job_id:
            return records[0]
        message = "names several worktrees" if records else "has no worktree that this host knows"
        raise InvalidRequest([Problem("JOB", message, "see fleet-dispatch worktrees list")])

    def remove(self, job_id: str, *, force: bool) -> TreeView:
        """Put the tree of a job aside and return how it was seen before.

        Raises Refused: `in_use`, `kept`, or without `force` `holds_work`.
        """
        record = self.find(job_id)
        with self.remover.holding(record):
            view = self.survey.view(record)
            refuse_removal(view, force=force)
            self.remover.remove(record, "a person removed it")
        return view

    def restore(self, job_id: str) -> TreeRecord:
        """Bring a removed tree back and return its record."""
        record = self.find(job_id)
        with self.remover.holding(record):
            self.remover.restore(self.find(record.job))  # as it is now that nobody else has it
        return self.find(job_id)


def refuse_removal(view: TreeView, *, force: bool) -> None:
    """Raise Refused when a person may not remove the tree now."""
    path = view.record.path
    gone = {TreeState.REMOVED: "was removed already", TreeState.REMOVED_BY_OWNER: "is not there"}
    if view.state in gone:
        again = f"fleet-dispatch worktrees restore {view.record.job}"
        remedy = again if view.state is TreeState.REMOVED else "its branch, if it is left, is yours"
        raise Refused(f"{path} {gone[view.state]}", code=view.state.value, remedy=remedy)
    if view.in_use:
        raise Refused(
            f"{path} is in use: {view.in_use}", code="in_use", remedy="end that, or wait for it"
        )
    if TreeState.LOCKED in view.states:
        remedy = f"git worktree unlock {path}"
        raise Refused(f"{path} is locked by git worktree lock", code="locked", remedy=remedy)
    if view.record.kept:
        remedy = f"fleet-dispatch worktrees keep {view.record.job} --undo"
        raise Refused(f"{path} is kept: {view.record.kept}", code="kept", remedy=remedy)
    if not (view.is_safe or force):
        raise Refused(
            f"{path} holds what is nowhere else: {what_it_holds(view)}",
            code="holds_work",
            remedy="merge or copy it first; or --force: it can be restored within the time of "
            "grace",
        )


def what_it_holds(view: TreeView) -> str:
    """Return what a tree holds that is nowhere else, for people."""
    look = view.look
    if look is None:
        return "it cannot be looked at"
    held = [f"it could not be looked at: {problem}" for problem in look.problems[:1]]
    if look.uncommitted:
        held.append(_counted(len(look.uncommitted), "uncommitted file"))
    if look.unpushed:
        held.append(f"{_counted(look.unpushed, 'commit')} that no other branch has")
    if view.ignored_only:
        held.append("work in ignored files alone")
    return ", ".join(held) or "nothing"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def open_desk(
    settings: HostSettings,
    journal: Journal,
    *,
    runner: ProcessRunner,
    clock: Clock,
    step: Callable[[str], None] = take_no_notice,
) -> TreeDesk:
    """Return the desk over an open journal; `step` as in TreeRemover."""
    survey = TreeSurvey(journal, state_dir=settings.state_dir, runner=runner)
    remover = TreeRemover(journal.trees, runs_dir=settings.runs_dir, step=step)
    collector = TreeCollector(journal.trees, survey, remover, settings.worktrees, clock)
    return TreeDesk(journal=journal, survey=survey, remover=remover, collector=collector)
