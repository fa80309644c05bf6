"""The worktrees of this host as they are now: the register, the job, the folder and what git sees.

Changes nothing. A tree in which something works is not looked at: it would be another one a
moment later.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from contracts.run_agent import RunAgentResult, Status
from runagent.evidence.repository_answers import RepositoryAnswers
from runagent.evidence.tree_look import TreeLook, look_at_tree
from runagent.process import ProcessRunner
from runagent.trees.tree_aside import TreePlace
from worker.journal.journal import Journal
from worker.journal.owners import is_alive, pid_of
from worker.journal.records import JobRecord
from worker.journal.schema import JobState
from worker.journal.trees import TreeRecord
from worker.trees.in_use import Standing, processes_in_folders, who_stands_in
from worker.trees.places import bytes_of, is_locked_by_owner, standing_place, stands
from worker.trees.states import TreeFacts, TreeState, states_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeView:
    """A tree as it is now."""

    record: TreeRecord
    states: tuple[TreeState, ...]
    bytes: int
    status: str  # of the job's result, "" when there is none
    in_use: str  # by whom, for people
    look: TreeLook | None = None
    ignored_only: bool = False  # all the agent wrote is ignored by git, so that git sees nothing

    @property
    def state(self) -> TreeState:
        """Return the state that counts."""
        return self.states[0]

    @property
    def is_free(self) -> bool:
        """Say whether nobody works in it, locks or keeps it, and it stands as it was made."""
        bound = {TreeState.RUNNING, TreeState.IN_USE, TreeState.LOCKED, TreeState.ORPHANED}
        gone = {TreeState.REMOVED, TreeState.REMOVED_BY_OWNER}
        return not self.record.kept and not (bound | gone) & set(self.states)

    @property
    def is_safe(self) -> bool:
        """Say whether everything in it is elsewhere as well."""
        return self.look is not None and self.look.is_safe_to_remove and not self.ignored_only

    @property
    def is_committed(self) -> bool:
        """Say whether it is known to hold nothing uncommitted."""
        look = self.look
        seen = look is not None and not look.problems and not look.uncommitted
        return seen and not self.ignored_only


class TreeSurvey:
    """Looks at the trees of one journal."""

    def __init__(
        self,
        journal: Journal,
        *,
        state_dir: Path,
        runner: ProcessRunner,
        processes: Callable[[], tuple[Standing, ...]] = processes_in_folders,
    ) -> None:
        """`state_dir` is the host's own: `runs/JOB` and, while a tree is looked at, `looks`."""
        self._journal = journal
        self._runs_dir = state_dir / "runs"
        self._looks_dir = state_dir / "looks"
        self._runner = runner
        self._processes = processes

    def view_all(self, *, look: bool = True) -> list[TreeView]:
        """Return every tree that is not gone for good, oldest first; without `look` none is looked
        at, and those that stand are unknown. Each repository is asked for its settings and refs
        once: before something is done to a tree, look at that one again."""
        processes, answers = self._processes(), RepositoryAnswers()
        records = self._journal.trees.standing()
        return [self._view(record, processes, answers, look=look) for record in records]

    def view(self, record: TreeRecord) -> TreeView:
        """Return one tree."""
        return self._view(record, self._processes(), RepositoryAnswers())

    def is_safe_aside(self, record: TreeRecord) -> bool:
        """Say whether everything in a removed tree is elsewhere as well."""
        return self._look(record, standing_place(record)).is_safe_to_remove

    def look_folder(self, job_id: str) -> str:
        """Return a new private folder for one look at the tree of a job."""
        return str(self._looks_dir / f"{job_id}-{secrets.token_hex(4)}")

    def exclude_file(self, job_id: str) -> str:
        """Return the file of ignore rules of ours for the tree of a job; it may not be there."""
        return str(self._runs_dir / job_id / "shadow" / "info" / "exclude")

    def clear_old_looks(self, before: float) -> None:
        """Delete what looks of killed processes left before the Unix time `before`."""
        if not self._looks_dir.is_dir():
            return
        for folder in self._looks_dir.iterdir():
            with contextlib.suppress(OSError):  # one whose look has just ended is gone
                if folder.lstat().st_mtime < before:
                    shutil.rmtree(folder, ignore_errors=True)

    def _view(
        self,
        record: TreeRecord,
        processes: tuple[Standing, ...],
        answers: RepositoryAnswers,
        *,
        look: bool = True,
    ) -> TreeView:
        job = self._journal.find(record.job)
        result = _result_of(job)
        place = standing_place(record)
        in_use = self._who_uses(record, job, place, processes)
        facts = _facts_without_look(record, job, place, bool(in_use), result)
        seen = None
        unseen = facts.is_removed or facts.is_missing or facts.is_orphaned
        if look and not (unseen or facts.is_running or in_use):
            seen = self._look(record, place, answers)
            facts = _with_look(facts, seen)
        return TreeView(
            record=record,
            states=states_of(facts),
            bytes=bytes_of(place.path),
            status="" if result is None else result.status.value,
            in_use=in_use,
            look=seen,
            ignored_only=result is not None
            and any(risk.code == "ignored_only" for risk in result.risks),
        )

    def _look(
        self, record: TreeRecord, place: TreePlace, answers: RepositoryAnswers | None = None
    ) -> TreeLook:
        return look_at_tree(
            place,
            record.base_commit,
            folder=self.look_folder(record.job),
            exclude=self.exclude_file(record.job),
            runner=self._runner,
            head_commit=record.head_commit,
            answers=answers,
        )

    def _who_uses(
        self,
        record: TreeRecord,
        job: JobRecord | None,
        place: TreePlace,
        processes: tuple[Standing, ...],
    ) -> str:
        holder = self._journal.trees.holder(record.job)
        if holder is not None:
            return f"process {pid_of(holder)} holds it"
        if _is_open(job):
            return "its job has not ended"
        if place.admin_dir and os.path.lexists(os.path.join(place.admin_dir, "index.lock")):
            return "a git command holds its index.lock"
        return who_stands_in(place.path, processes)


def _is_open(job: JobRecord | None) -> bool:
    if job is None or job.result is not None or job.state is JobState.REFUSED:
        return False
    return is_alive(job.owner) is not False


def _result_of(job: JobRecord | None) -> RunAgentResult | None:
    if job is None or job.result is None:
        return None
    try:
        return RunAgentResult.model_validate_json(job.result)
    except ValidationError:
        return None


def _facts_without_look(
    record: TreeRecord,
    job: JobRecord | None,
    place: TreePlace,
    is_in_use: bool,  # noqa: FBT001 - named at its one call
    result: RunAgentResult | None,
) -> TreeFacts:
    known_to_git = place.has_repository and bool(place.admin_dir) and os.path.isdir(place.admin_dir)
    return TreeFacts(
        is_removed=record.is_removed,
        is_missing=not os.path.lexists(place.path),
        is_running=_is_open(job),
        is_in_use=is_in_use,
        is_locked=known_to_git and is_locked_by_owner(place),
        is_orphaned=not known_to_git or not stands(place),
        has_failed=result is not None and result.status is not Status.COMPLETED,
    )


def _with_look(facts: TreeFacts, look: TreeLook) -> TreeFacts:
    return dataclasses.replace(
        facts,
        was_looked_at=not look.problems,
        has_landed=bool(look.landed_in),
        is_dirty=bool(look.uncommitted),
        is_unpushed=bool(look.unpushed),
    )
