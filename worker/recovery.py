"""After a crash: what a dead process of this host left without an end gets one, and no new start.

An agent run costs money and leaves marks, so nothing is started again. The job ends as `failed`
with the risk `listener_lost`, and the worktree with its work is kept and named.
"""

from __future__ import annotations

import os
import threading
from typing import Final

import psutil

from contracts import naming
from contracts.clock import Clock
from worker.journal import Journal
from worker.journal_records import JobRecord
from worker.journal_schema import JobState
from worker.outbox import Outbox
from worker.outcome import lost_run

# A run's own processes end with it: TERM, 5 s of grace, KILL. Longer is not waited for.
_TREE_END_S: Final = 15.0
_LOOK_EVERY_S: Final = 0.1


def recover(journal: Journal, outbox: Outbox, *, host: str, clock: Clock) -> tuple[str, ...]:
    """End every job whose process is gone; return their ids."""
    orphans = journal.orphans()
    pids = {row.pid for job in orphans for row in journal.history(job.jti) if _is_run(row.state)}
    _wait_for_end(pids, clock)
    for record in orphans:
        why = f"the process that ran this job was lost while the job was {record.state.value}"
        journal.record(record.jti, JobState.INTERRUPTED, attempt=record.attempt, why=why)
        tree = left_worktree(record)
        lost = lost_run(record, host=host, worktree=tree, code="listener_lost", why=why)
        outbox.conclude(record.jti, lost, why="recovered")
    return tuple(record.jti for record in orphans)


def left_worktree(record: JobRecord) -> str:
    """Return the worktree that a broken-off job left, "" when there is none."""
    repo = record.facts.get("repo", "")
    if record.worktree or not os.path.isabs(repo):
        return record.worktree
    path = os.path.join(naming.agents_folder(os.path.realpath(repo)), record.jti)
    return path if os.path.isdir(path) else ""


def _is_run(state: JobState) -> bool:
    return state in (JobState.STARTED, JobState.AGENT_DONE, JobState.VALIDATED)


def _wait_for_end(pids: set[int], clock: Clock) -> None:
    give_up = clock.monotonic() + _TREE_END_S
    pause = threading.Event()
    while any(psutil.pid_exists(pid) for pid in pids) and clock.monotonic() < give_up:
        clock.wait(pause, _LOOK_EVERY_S)
