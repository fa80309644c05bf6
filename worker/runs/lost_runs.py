"""What a run whose process was lost left on this machine: its processes, its staged prompt, and the
box with what its agent committed.

Ended, removed and brought home before the job gets its end, so that a result never stands beside a
run that goes on. Touches no file of a worktree and judges nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from pathlib import Path

from contracts.errors import Unavailable
from contracts.run_agent import Risk
from runagent.launch import remove_staged
from runagent.leftovers import Leftovers, end_leftovers
from runagent.process import ProcessRunner
from runagent.sandbox.box_folder import recover_box
from worker.journal.journal import Journal
from worker.journal.owners import is_here, is_number_its_own, is_running
from worker.journal.processes import RecordedProcess
from worker.journal.records import JobRecord


class LostRuns:
    """The lost runs of one journal."""

    def __init__(
        self,
        journal: Journal,
        runtime_dir: Callable[[str], Path],
        runner: ProcessRunner,
        git_timeout_s: float,
    ) -> None:
        """`runtime_dir` gives the private folder of a job, `runner` starts the host's own git."""
        self._journal = journal
        self._runtime_dir = runtime_dir
        self._runner = runner
        self._git_timeout_s = git_timeout_s

    def end(self, records: Collection[JobRecord]) -> int:
        """End all that was started for the jobs in `records`, whose owners are lost, and remove
        their staged prompts. Returns how many processes could not be ended; takes the grace and
        10 s at the most, and no time when nothing is left."""
        left = end_leftovers(self._find(records)).left
        for record in records:
            if not left:
                with contextlib.suppress(Unavailable):
                    self._journal.processes.end_job(record.jti)
            remove_staged(str(self._runtime_dir(record.jti)))
        return left

    def bring_home(self, job_id: str) -> tuple[Risk, ...]:
        """Take home what was committed in the box of a job whose processes were ended, and remove
        the box's folder. Returns the risks of what stayed, which is kept. Twice is once; never
        raises; takes `git_timeout_s` and a minute's wait for the repository at the most."""
        folder = str(self._runtime_dir(job_id))
        return recover_box(folder, self._runner, self._git_timeout_s)

    def _find(self, records: Collection[JobRecord]) -> Leftovers:
        recorded = [(r.owner, p) for r in records for p in self._journal.processes.running(r.jti)]
        # The numbers of another machine, of another container or of before a reboot mean nothing.
        numbered = [item for owner, item in recorded if item.pid > 0 and is_here(owner)]
        return Leftovers(
            markers=frozenset(item.marker for _, item in recorded),
            pids=frozenset(p.pid for p in numbered if is_running(p.pid, p.started)),
            sessions=frozenset(p.pid for p in numbered if _is_its_session(p)),
        )


def _is_its_session(process: RecordedProcess) -> bool:
    """Say whether a session of this number is that process's: the kernel gives a number out again
    only when no session of it has members, so one that nobody has now was not given out since."""
    return is_number_its_own(process.pid, process.started)
