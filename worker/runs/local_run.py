"""A person's own run: the host's code composed with this machine's settings, journal and terminal.

Owns the composition, the signals that stop the run, and its rows in the journal. It must never
leave the journal with a run that looks alive after it ended, and never lose a result because the
journal could not take it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TextIO

from pydantic import JsonValue

from contracts.clock import SystemClock
from contracts.errors import FleetError, InvalidRequest, Problem
from contracts.limits import PAYLOAD_MAX_BYTES
from contracts.run_agent import Risk, RunAgentRequest, RunAgentResult
from runagent.clis.look import CliLook
from runagent.environment import scrub_own_git_variables
from runagent.events.event_file import EventFile
from runagent.host import HostPorts, RunOrder, run_agent
from runagent.ports import RunWatcher, SilentWatcher
from runagent.process import system_runner
from runagent.sandbox.protocol import Sandbox
from validation.paths import Grammar
from validation.run_agent_request import check_run_agent
from worker.governor.choice import host_governor
from worker.host_sandbox import host_sandbox
from worker.journal.journal import Journal
from worker.journal.records import LOCAL_SENDER, NewJob
from worker.journal.schema import JobState
from worker.reserve import Reserve
from worker.runs.lost_runs import LostRuns
from worker.runs.recording_runner import RecordingRunner
from worker.runs.recovery import Recovery
from worker.runs.terminal import Progress
from worker.settings import HostSettings, host_redactor, load_host_settings, process_environment
from worker.spare_shelf import lent_spares

_LOG: Final = logging.getLogger(__name__)
_GRAMMAR: Final[Grammar] = "windows" if sys.platform == "win32" else "posix"
_STOPPING_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP")


def read_task(task: str | None, task_file: str | None) -> str | None:
    """Return the task: `task` itself, or what stands in `task_file` ("-" is stdin); None when
    neither is given. Raises InvalidRequest when both are, or when the file cannot be read."""
    if task_file is None:
        return task
    if task is not None:
        raise _bad_task("is given twice", "give --task or --task-file, not both")
    try:
        data = _read_bytes(task_file)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise _bad_task(f"cannot be read from its file: {reason}", "check the path") from error
    if len(data) > PAYLOAD_MAX_BYTES:
        raise _bad_task("is too large", f"at most {PAYLOAD_MAX_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _bad_task(f"is not UTF-8 at byte {error.start}", "save it as UTF-8") from error


def run_here(payload: Mapping[str, JsonValue], *, job_id: str, stderr: TextIO) -> RunAgentResult:
    """Run `payload` on this machine and return the result. On a terminal, `stderr` shows what goes
    on meanwhile. Signals that ask for an end stop the run.

    Raises FleetError when the run was refused before the host's code was reached.
    """
    request = check_run_agent(payload, _GRAMMAR)
    scrub_own_git_variables()
    settings = load_host_settings()
    environment = process_environment()
    sandbox = host_sandbox(settings, system_runner(), environment, recalls=True).sandbox
    cancelled = threading.Event()
    with (
        contextlib.closing(Journal(settings.journal_file, SystemClock())) as journal,
        _stopping_on_signals(cancelled),
    ):
        _recover(settings, journal)
        journal.claim(NewJob(jti=job_id, facts=_facts(request)))
        order = RunOrder(
            job_id=job_id, request=request, repo_on_host=request.repo, host=settings.host
        )
        with _watching(stderr) as watch:
            result = run_agent(order, _ports(settings, journal, order, cancelled, watch, sandbox))
        with contextlib.suppress(FleetError):
            journal.processes.end_job(job_id)
        return _finish(journal, Reserve(settings.state_dir), job_id, result)


def _recover(settings: HostSettings, journal: Journal) -> None:
    """End what earlier local runs left that were killed: no listener may ever run here. Trouble
    with them is no reason to refuse this one."""

    def conclude(job_id: str, result: RunAgentResult) -> None:
        journal.finish(job_id, result.to_json().encode("utf-8"))

    recovery = Recovery(
        journal,
        LostRuns(journal, settings.runtime_dir, system_runner(), settings.worktree_timeout_s),
        conclude,
        host=settings.host,
        reserve=Reserve(settings.state_dir),
        say=lambda what, **details: _LOG.info("%s %s", what, details),
    )
    with contextlib.suppress(FleetError):
        recovery.end([job for job in journal.orphans() if job.iss == LOCAL_SENDER])


def _ports(
    settings: HostSettings,
    journal: Journal,
    order: RunOrder,
    cancelled: threading.Event,
    watch: RunWatcher,
    sandbox: Sandbox,
) -> HostPorts:
    def record(state: str, attempt: int, why: str) -> None:
        journal.record(order.job_id, JobState(state), attempt=attempt, why=why)

    environment, runner = process_environment(), system_runner(is_guardian=True)
    redactor, folder = host_redactor(settings, environment), settings.runtime_dir(order.job_id)
    return HostPorts(
        runner=RecordingRunner(runner, journal.processes, order.job_id),
        governor=host_governor(settings, runner, environment, SystemClock()),
        look=CliLook(runner, settings.agent_memory_file),
        sandbox=sandbox,
        clock=SystemClock(),
        environment=environment,
        inherit=settings.allowed_variables,
        runtime_dir=str(folder),
        events=EventFile(folder, order.job_id, SystemClock(), redactor),
        retry_patience_s=settings.retry_patience_s,
        presets=settings.presets,
        watch=watch,
        record=record,
        cancelled=cancelled,
        validation_timeout_s=settings.validation_timeout_s,
        git_timeout_s=settings.worktree_timeout_s,
        detectors=settings.detectors,
        redactor=redactor,
        watch_list=settings.watch_list,
        trust=journal.repositories,
        trees=journal.trees,
        spares=lent_spares(settings, journal, sandbox),
        worktree=settings.worktree,
    )


def _finish(
    journal: Journal, reserve: Reserve, job_id: str, result: RunAgentResult
) -> RunAgentResult:
    """Write the end into the journal; a full disk there must not cost the person the result."""
    try:
        data = result.to_json().encode("utf-8")
        reserve.lend(lambda: journal.finish(job_id, data))
    except FleetError as error:
        _LOG.warning("job %s: the journal did not take the result: %s", job_id, error)
        risk = Risk(code="not_journaled", message=str(error))
        return result.model_copy(
            update={
                "risks": (*result.risks, risk),
                "known_risks": (*result.known_risks, risk.message),
                "needs_human_review": True,
            }
        )
    return result


def _facts(request: RunAgentRequest) -> dict[str, str]:
    return {
        "agent": request.agent,
        "ticket": request.ticket,
        "mode": request.effective_mode,
        "repo": request.repo,
    }


@contextlib.contextmanager
def _watching(stderr: TextIO) -> Iterator[RunWatcher]:
    if not stderr.isatty():
        yield SilentWatcher()
        return
    progress = Progress(stderr, SystemClock())
    progress.start()
    try:
        yield progress
    finally:
        progress.stop()


@contextlib.contextmanager
def _stopping_on_signals(cancelled: threading.Event) -> Iterator[None]:
    """Let the signals that ask for an end set `cancelled` and do no more, for as long as this."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in _STOPPING_SIGNALS if hasattr(signal, name)]
    earlier = {number: signal.signal(number, lambda *_: cancelled.set()) for number in numbers}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _read_bytes(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read(PAYLOAD_MAX_BYTES + 1)
    with Path(os.path.abspath(path)).open("rb") as file:
        return file.read(PAYLOAD_MAX_BYTES + 1)


def _bad_task(message: str, remedy: str) -> InvalidRequest:
    return InvalidRequest([Problem("task", message, remedy)])
