"""After a crash: what a dead process of this host left without an end gets one, and no new start.

An agent run costs money and leaves marks, so nothing is started again. First the jobs are taken
over, so that what may still live of their runs can write nothing; then that is ended; then what
was committed in a box comes home; then each job ends as `failed` with the risk `listener_lost`, and
the worktree with its work is kept and named.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from contracts import naming
from contracts.run_agent import RunAgentResult
from worker.announcer import Say
from worker.journal.journal import Journal
from worker.journal.records import JobRecord
from worker.journal.schema import JobState
from worker.reserve import Reserve
from worker.runs.lost_runs import LostRuns
from worker.runs.outcome import lost_run

WHY_ENDED: Final = "recovered"


class Recovery:
    """The recovery of one process that has just started."""

    def __init__(
        self,
        journal: Journal,
        lost_runs: LostRuns,
        conclude: Callable[[str, RunAgentResult], None],
        *,
        host: str,
        reserve: Reserve,
        say: Say,
    ) -> None:
        """`conclude` ends a job with its result. `host` is whose lease this process holds."""
        self._journal = journal
        self._lost_runs = lost_runs
        self._conclude = conclude
        self._host = host
        self._reserve = reserve
        self._say = say

    def run(self) -> tuple[str, ...]:
        """End every job of this host whose process is gone; return their ids."""
        return self.end(self._journal.orphans(self._host))

    def end(self, orphans: list[JobRecord]) -> tuple[str, ...]:
        """End the jobs in `orphans` that are not taken over by somebody else meanwhile."""
        ours = [record for record in orphans if self._adopt(record)]
        left = self._lost_runs.end(ours)
        for record in ours:
            self._end(record, left)
        return tuple(record.jti for record in ours)

    def _adopt(self, record: JobRecord) -> bool:
        return self._reserve.lend(lambda: self._journal.adopt(record))

    def _end(self, record: JobRecord, left: int) -> None:
        why = f"the process that ran this job was lost while the job was {record.state.value}"
        if left:
            why = f"{why}; {left} processes of lost runs could not be ended"
        state, attempt = JobState.INTERRUPTED, record.attempt
        self._reserve.lend(
            lambda: self._journal.record(record.jti, state, attempt=attempt, why=why)
        )
        tree = left_worktree(record)
        lost = lost_run(
            record,
            host=self._host,
            worktree=tree,
            code="listener_lost",
            why=why,
            more=self._lost_runs.bring_home(record.jti),
        )
        self._conclude(record.jti, lost)
        self._say("recovered", job=record.jti)


def left_worktree(record: JobRecord) -> str:
    """Return the worktree that a broken-off job left, "" when there is none."""
    repo = record.facts.get("repo", "")
    if record.worktree or not os.path.isabs(repo):
        return record.worktree
    path = os.path.join(naming.agents_folder(os.path.realpath(repo)), record.jti)
    return path if os.path.isdir(path) else ""
