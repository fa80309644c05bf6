"""The runs of a listener: each one a process of its own, started, awaited and ended here.

A run process gets its order on standard input and answers with the result's JSON on standard
output. It has its own deadline behind every deadline inside it, and nothing of it outlives it or
this process. Knows no Redis and decides nothing about a job.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from contracts import limits
from contracts.errors import CouldNotCheck, Unavailable
from contracts.run_agent import RunAgentResult
from dispatch.private_files import make_private_folder
from runagent.process import EndState, ProcessOutcome, ProcessRunner, ProcessSpec, RunningProcess
from worker.journal.journal import Journal
from worker.journal.schema import JobState
from worker.runs.recording_runner import RecordingRunner

# `-P` keeps the working directory and its `worker` folder, if any, out of the imports.
RUN_COMMAND: Final = (
    sys.executable,
    "-P",
    "-c",
    "from worker.runs.run_start import main; main()",
)
# Beyond two attempts, the worktree and the validation: evidence on a large tree, imports, journal.
_SLACK_S: Final = 600.0
# Between a polite stop and the end of the whole tree: agent's grace, evidence, result.
STOP_GRACE_S: Final = 45.0
_CANCEL_GRACE_S: Final = STOP_GRACE_S + 15.0  # then a run that does not answer is ended whole
_OUTPUT_MAX_BYTES: Final = 4 * limits.RESULT_MAX_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTask:
    """A verified order: the request as it was signed, and where its repo is on this host."""

    job_id: str
    host: str
    payload: Mapping[str, Any]
    repo_on_host: str
    attempt_limit_s: int
    require_sandbox: tuple[str, ...] = ()  # what the sandbox must enforce, by the host's policy
    repo_roots: tuple[str, ...] = ()  # where the repository must lie when it is opened
    validator: tuple[str, ...] = ()  # the argv that validateCommand names; (): it is for a shell

    def to_json(self, owner: str) -> bytes:
        """Return the order as the run process reads it; `owner` is who may write to the job."""
        order = {
            "owner": owner,
            "jobId": self.job_id,
            "host": self.host,
            "payload": dict(self.payload),
            "repoOnHost": self.repo_on_host,
            "requireSandbox": list(self.require_sandbox),
            "repoRoots": list(self.repo_roots),
            "validator": list(self.validator),
        }
        return json.dumps(order).encode("utf-8")


class RunDied(Exception):
    """A run process ended without a result; the text says how, and nothing it printed. `code` is
    the risk that stands for it."""

    def __init__(self, message: str, *, code: str = "run_process_died") -> None:
        super().__init__(message)
        self.code = code


def follow_nothing(_job_id: str) -> None:
    """Follow no job."""


class Runs:
    """The run processes of one listener."""

    def __init__(
        self,
        runner: ProcessRunner,
        environment: Mapping[str, str],
        journal: Journal,
        *,
        other_limits_s: float,
        follow: Callable[[str], None] = follow_nothing,
        command: tuple[str, ...] = RUN_COMMAND,
    ) -> None:
        """`other_limits_s` is what worktree and validation may take beside the agent; `follow` is
        told each job that begins."""
        self._runner = runner
        self._journal = journal
        self._environment = {**environment, "PYTHONSAFEPATH": "1"}
        self._other_limits_s = other_limits_s
        self._command = command
        self._follow = follow
        self._lock = threading.Lock()
        self._running: dict[str, RunningProcess] = {}
        self._ending: dict[str, threading.Timer] = {}  # of runs that were told to stop
        self._stopping = ""

    def run(self, task: RunTask, folder: Path) -> RunAgentResult:
        """Run `task` in a process with `folder` (made if missing) as its working directory.

        Raises RunDied when it leaves no result, Unavailable when the folder cannot be made.
        """
        make_private_folder(folder)
        self._follow(task.job_id)
        spec = ProcessSpec(
            argv=self._command,
            cwd=str(folder),
            env=self._environment,
            stdin=task.to_json(self._journal.owner),
            timeout_s=2 * task.attempt_limit_s + self._other_limits_s + _SLACK_S,
            grace_s=STOP_GRACE_S,
            tail_bytes=_OUTPUT_MAX_BYTES,
        )
        return self._read_result(self._await(task.job_id, spec, role="run"))

    def perform(self, job_id: str, spec: ProcessSpec, *, role: str) -> ProcessOutcome:
        """Start `spec` as all that a job is, write down that it started, and return how it ended.

        Raises RunDied when the job was to stop (with the listener, or taken back by its sender),
        Unavailable when the journal cannot be written.
        """
        if not self._journal.record(job_id, JobState.STARTED, attempt=1):
            raise RunDied("a later listener has ended this job", code="interrupted")
        outcome = self._await(job_id, spec, role=role)
        if self._stopping and outcome.exit_code != 0:
            raise RunDied(f"stopped with its listener ({self._stopping})", code="interrupted")
        if outcome.exit_code != 0 and self._was_taken_back(job_id):
            raise RunDied("taken back while it ran", code="cancelled")
        return outcome

    def _was_taken_back(self, job_id: str) -> bool:
        """Say whether the sender took back what ran just now. A journal that cannot be read says
        no: an error would tell that nothing was started, and another host would start it again."""
        try:
            return self._journal.cancels.of_job(job_id) is not None
        except (Unavailable, CouldNotCheck):
            return False

    def _await(self, job_id: str, spec: ProcessSpec, *, role: str) -> ProcessOutcome:
        runner = RecordingRunner(self._runner, self._journal.processes, job_id, role=role)
        with self._lock:
            if self._stopping:
                why = f"stopped before the run began: {self._stopping}"
                raise RunDied(why, code="interrupted")
            if self._journal.cancels.of_job(job_id) is not None:
                raise RunDied("taken back before the run began", code="cancelled")
            running = self._running[job_id] = runner.start(spec)
        try:
            outcome = running.wait()
        finally:
            with self._lock:
                del self._running[job_id]
                timer = self._ending.pop(job_id, None)
            if timer is not None:
                timer.cancel()
        with contextlib.suppress(Unavailable, CouldNotCheck):
            self._journal.processes.end_job(job_id)
        return outcome

    def cancel(self, job_id: str) -> None:
        """Ask the run of one job to stop and hand in what it has, if there is one now; end its
        whole tree when it has not done so after a minute. One that begins later finds the cancel in
        the journal. Again is once."""
        with self._lock:
            run = self._running.get(job_id)
            if run is None or job_id in self._ending:
                return
            timer = threading.Timer(_CANCEL_GRACE_S, run.abort, ["cancelled"])
            timer.daemon = True
            self._ending[job_id] = timer
        _ask_to_stop(run)
        timer.start()

    def stop_all(self, why: str) -> None:
        """Ask every run to stop and hand in what it has; start none from here on."""
        with self._lock:
            self._stopping = why
            running = list(self._running.values())
        for run in running:
            _ask_to_stop(run)

    def end_all(self) -> None:
        """End every run's whole tree now, result or not."""
        with self._lock:
            running = list(self._running.values())
        for run in running:
            run.abort("the listener stops")

    def count(self) -> int:
        """Return how many runs there are now."""
        with self._lock:
            return len(self._running)

    def _read_result(self, outcome: ProcessOutcome) -> RunAgentResult:
        try:
            return RunAgentResult.model_validate_json(outcome.stdout)
        except ValidationError as error:
            how = _how_it_ended(outcome)
            if self._stopping:
                why = f"stopped with its listener ({self._stopping}): {how}"
                raise RunDied(why, code="interrupted") from error
            raise RunDied(how) from error


def _ask_to_stop(run: RunningProcess) -> None:
    """Signal the run process alone: its agent is for it to end. Windows has no such signal."""
    if sys.platform == "win32" or run.pid <= 0:
        run.abort("the listener stops")
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(run.pid, signal.SIGTERM)


def _how_it_ended(outcome: ProcessOutcome) -> str:
    if outcome.state is EndState.EXITED:
        return f"the run process ended with exit code {outcome.exit_code} and no result"
    return f"the run process ended without a result: {outcome.state.value}, {outcome.why}"
