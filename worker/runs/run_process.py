"""The process of one queued run: order on standard input, result JSON alone on standard output.

Composes the host's ports from this machine's settings and calls the run. It is a child of the
listener and is ended with it. A TERM makes it stop the run and hand in what there is. It holds no
key, talks to the broker about the pools of its agent alone, and writes to its job in the name of
its listener.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, BinaryIO, Final

from contracts.clock import SystemClock
from contracts.errors import FleetError, Interrupted, Unavailable
from contracts.run_agent import RunAgentRequest, RunAgentResult
from contracts.sandbox import Capability
from runagent.clis.look import CliLook
from runagent.events.event_file import EventFile
from runagent.host import HostPorts, RunOrder, run_agent
from runagent.process import system_runner
from validation.admission import refused_result
from worker.governor.choice import host_governor
from worker.host_sandbox import host_sandbox
from worker.journal.journal import Journal
from worker.journal.schema import JobState
from worker.runs.allowed_roots import AllowedRoots
from worker.runs.recording_runner import RecordingRunner
from worker.settings import HostSettings, host_redactor, load_host_settings, process_environment
from worker.spare_shelf import lent_spares

TAKEN_OVER: Final = (
    "a later listener has ended this job; nothing that this run does counts any more"
)


def host_ports(
    settings: HostSettings, journal: Journal, job_id: str, cancelled: threading.Event
) -> HostPorts:
    """Return the ports of one queued run on this host."""

    def record(state: str, attempt: int, why: str) -> None:
        if not journal.record(job_id, JobState(state), attempt=attempt, why=why):
            raise Interrupted(TAKEN_OVER)
        settings.crash.reach(f"after_{state}")

    environment, runner = process_environment(), system_runner(is_guardian=True)
    redactor, folder = host_redactor(settings, environment), settings.runtime_dir(job_id)
    sandbox = host_sandbox(settings, runner, environment, recalls=True).sandbox
    return HostPorts(
        runner=RecordingRunner(runner, journal.processes, job_id),
        sandbox=sandbox,
        clock=SystemClock(),
        presets=settings.presets,
        governor=host_governor(settings, runner, environment, SystemClock()),
        look=CliLook(runner, settings.agent_memory_file),
        environment=environment,
        inherit=settings.allowed_variables,
        runtime_dir=str(folder),
        events=EventFile(folder, job_id, SystemClock(), redactor),
        retry_patience_s=settings.retry_patience_s,
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


def main() -> None:
    """Run the order on standard input; always print a result, whatever the order asks for."""
    cancelled = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: cancelled.set())
    answer = _keep_stdout()
    order: dict[str, Any] = json.loads(sys.stdin.buffer.read())
    result = _run(order, cancelled)
    answer.write(result.to_json().encode("utf-8"))
    answer.close()


def _run(order: Mapping[str, Any], cancelled: threading.Event) -> RunAgentResult:
    job_id, host = order["jobId"], order["host"]
    try:
        settings = load_host_settings()
        journal = Journal(settings.journal_file, SystemClock(), owner=order["owner"])
    except FleetError as error:
        return refused_result(order["payload"], error, job_id=job_id, host=host)
    try:
        run_order = RunOrder(
            job_id=job_id,
            request=RunAgentRequest.model_validate(order["payload"]),
            repo_on_host=order["repoOnHost"],
            host=host,
            require_sandbox=frozenset(map(Capability, order.get("requireSandbox", ()))),
            validator=tuple(order["validator"]),
        )
        ports = host_ports(settings, journal, job_id, cancelled)
        trust = AllowedRoots(order["repoRoots"], ports.trust)
        return run_agent(run_order, replace(ports, trust=trust))
    except Unavailable as error:
        return refused_result(order["payload"], error, job_id=job_id, host=host)
    finally:
        journal.close()


def _keep_stdout() -> BinaryIO:
    """Return the real standard output; what anything else prints goes to standard error."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answer
