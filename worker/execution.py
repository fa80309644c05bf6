"""What is done about a claimed job, and the end it comes to: taken back, refused, run or lost.

Whatever fails, there is an end. Delivers nothing and writes no end down.
"""

from __future__ import annotations

import contextlib

from contracts.errors import (
    CouldNotCheck,
    DiskFull,
    InvalidRequest,
    PolicyRefused,
    Unavailable,
)
from contracts.plain_result import Outcome
from validation.admission import refused_result
from worker.entry_ports import EntryPorts
from worker.journal.records import JobRecord
from worker.runs.cancelled import never_started
from worker.runs.outcome import lost_run
from worker.runs.recovery import left_worktree
from worker.runs.runs import RunDied
from worker.verification import VerifiedJob


class Execution:
    """The execution of one host's jobs; called from several threads."""

    def __init__(self, ports: EntryPorts) -> None:
        self._ports = ports

    def result_of(self, job: VerifiedJob) -> Outcome:
        """Do a claimed job, if it may be done here and nobody took it back; return its end."""
        ports, claims = self._ports, job.claims
        host = ports.settings.host
        taken_back = self.taken_back(job)
        if taken_back is not None:
            return taken_back
        if not ports.reserve.hold():
            full = DiskFull(
                f"ENOSPC: no space left for the end of a job on the disk of {ports.reserve.path}",
                remedy="free space on the disk of the state folder",
            )
            return refused_result(claims.payload, full, job_id=claims.jti, host=host)
        try:
            task = ports.kinds.admit(job, ports.policy.current())
        except (InvalidRequest, PolicyRefused) as error:
            ports.say("refused", job=claims.jti, reason=error.kind)
            return refused_result(claims.payload, error, job_id=claims.jti, host=host)
        try:
            return task.run()
        except Unavailable as error:
            return refused_result(claims.payload, error, job_id=claims.jti, host=host)
        except RunDied as died:
            record = ports.journal.find(claims.jti)
            assert record is not None, "a claimed job has a record"
            return self.lost(record, died.code, str(died))

    def taken_back(self, job: VerifiedJob) -> Outcome | None:
        """Return the end of a claimed job that its sender took back, None when he did not."""
        ports, claims = self._ports, job.claims
        cancel = ports.journal.cancels.of_job(claims.jti)
        host = ports.settings.host
        return None if cancel is None else never_started(claims.payload, cancel, host=host)

    def lost(self, record: JobRecord, code: str, why: str) -> Outcome:
        """End what a broken-off job left, and return its end."""
        with contextlib.suppress(Unavailable, CouldNotCheck):  # the job must have its end
            self._ports.lost_runs.end([record])
        host, tree = self._ports.settings.host, left_worktree(record)
        more = self._ports.lost_runs.bring_home(record.jti)
        return lost_run(record, host=host, worktree=tree, code=code, why=why, more=more)
