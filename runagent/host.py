"""One run, from the order to the result.

Owns the order of the phases: check, worktree, look, start (twice at most), look, validate, look,
judge, leave. The agent's claims weigh nothing here. `run_agent` must never raise for anything that
a request, a repository, an agent or a validator does, and never leave something half made.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from contracts.errors import CouldNotCheck, FleetError, Interrupted, LaunchRefused
from contracts.run_agent import AgentName, Risk, RunAgentResult
from runagent.agents import AGENTS
from runagent.attempt import Launch, find_program, make_attempt
from runagent.cancellation import REASON
from runagent.disk_floor import refuse_below_floor
from runagent.environment import agent_environment
from runagent.evidence import EvidenceCollector
from runagent.findings import Findings
from runagent.launch import StagedPrompt, make_private_directory, stage_prompt
from runagent.ports import HostPorts, RunOrder
from runagent.sandbox.protocol import Box, Site, refuse_weaker, report_of
from runagent.tree_removal import remove_if_empty
from runagent.validation_run import never_started, plan_validation, run_plan
from runagent.worktree import (
    Worktree,
    prepare_worktree,
    remove_worktree,
    stands_in_place,
    unlock_worktree,
)
from validation.admission import check_payload
from validation.checks import attempted_lines, plan_checks, validation_of
from validation.paths import Grammar
from validation.verdict import goes_on_to_validation, may_retry

__all__ = ["HostPorts", "RunOrder", "run_agent"]

_LOG: Final = logging.getLogger(__name__)
_REPLACED: Final = "the worktree is gone or was replaced by something else"
_OWN_GRAMMAR: Final[Grammar] = "windows" if os.name == "nt" else "posix"


def run_agent(order: RunOrder, ports: HostPorts) -> RunAgentResult:
    """Carry out `order` on this machine and return what the host found.

    The worktree is left in place when an agent was started in it, and removed when none was. A
    stop (`ports.cancelled`, or a KeyboardInterrupt) ends in a `failed` result with the risk
    `interrupted`, an error of ours in one with the risk `internal_error`.
    """
    findings = Findings(order=order, began=ports.clock.monotonic(), redactor=ports.redactor)
    try:
        _carry_out(findings, ports)
    except FleetError as error:
        findings.stop(error)
    except KeyboardInterrupt:
        ports.cancelled.set()
        findings.stop(Interrupted(REASON))
    except Exception as error:  # noqa: BLE001  # the top of a run: our bug is a result too
        _tell_where(order, error)
        findings.break_off(error)
    if findings.worktree is not None:
        _leave(findings, findings.worktree, ports)
    if not findings.launches:
        remove_if_empty(ports.runtime_dir)
    return findings.result(ports.clock.monotonic())


def _tell_where(order: RunOrder, error: Exception) -> None:
    """Log an error of ours by its kind and its place: its text may quote anything."""
    places = traceback.extract_tb(error.__traceback__)
    where = " < ".join(f"{Path(at.filename).name}:{at.lineno}" for at in reversed(places))
    name = type(error).__name__
    _LOG.error("job %s on %s broke off: %s at %s", order.job_id, order.host, name, where)


def _carry_out(findings: Findings, ports: HostPorts) -> None:
    order = findings.order
    _enter(ports, "checking")
    findings.sandbox = report_of(ports.sandbox)
    check_payload({**order.request.to_payload(), "repo": order.repo_on_host}, grammar=_OWN_GRAMMAR)
    refuse_weaker(ports.sandbox, order.require_sandbox)
    agent = AGENTS[AgentName(order.request.agent)]
    preset = ports.presets.get(agent.name) or agent.default_preset()
    environment = _environment(ports, agent.environment)
    program = find_program(agent, preset, environment)
    _enter(ports, "worktree")
    places = {"worktrees": os.path.dirname(order.repo_on_host), "state folder": ports.runtime_dir}
    refuse_below_floor(places, ports.worktree.disk_floor_bytes)
    make_private_directory(ports.runtime_dir)
    worktree = _make_worktree(findings, ports)
    launch = Launch(
        job_id=order.job_id,
        agent=agent,
        preset=preset,
        program=program,
        worktree=worktree.path,
        environment=environment,
        limit_s=order.agent_limit_s,
    )
    site = Site(
        worktree=worktree,
        runtime_dir=ports.runtime_dir,
        agent=agent.name,
        environment=environment,
        host_environment=ports.environment,
        runner=ports.runner,
        deadline_s=ports.git_timeout_s,
    )
    with contextlib.closing(ports.sandbox.enclose(site)) as box:
        _work(findings, launch, worktree, box, ports)


def _work(
    findings: Findings, launch: Launch, worktree: Worktree, box: Box, ports: HostPorts
) -> None:
    """Look, let the agent work, look, validate, look. Only agent and validator are in the box."""
    boxed = dataclasses.replace(ports, runner=box.around(ports.runner))
    collector = EvidenceCollector(
        worktree,
        shadow_dir=_shadow_dir(ports),
        runner=ports.runner,
        deadline_s=ports.git_timeout_s,
        git=box.git,
    )
    collector.start()
    with (
        _keeping_the_first_attempt(findings),
        stage_prompt(findings.order.request.task, ports.runtime_dir) as prompt,
    ):
        _make_attempts(findings, launch, prompt, boxed)
    if not findings.launches:
        return
    with _looking(findings):
        _enter(ports, "looking")
        collector.after_agent()
    findings.add_risks(box.bring_home())
    if goes_on_to_validation(findings.agent):
        _validate(findings, worktree, launch, boxed)
    with _looking(findings):
        _enter(ports, "looking")
        findings.evidence = collector.after_validation()
        findings.add_risks(findings.evidence.risks)
    findings.add_risks(box.bring_home())


def _environment(ports: HostPorts, defaults: Mapping[str, str]) -> dict[str, str]:
    """Return what agent and validator inherit; the agent's defaults yield to the host's own."""
    source = {**defaults, **ports.environment}
    return agent_environment(source, extra_names=(*ports.inherit, *defaults))


def _make_worktree(findings: Findings, ports: HostPorts) -> Worktree:
    order = findings.order
    worktree = prepare_worktree(
        order.repo_on_host,
        job_id=order.job_id,
        ticket=order.request.ticket,
        branch=order.request.branch,
        shadow_dir=_shadow_dir(ports),
        runner=ports.runner,
        deadline_s=ports.git_timeout_s,
        trees=ports.trees,
    )
    findings.worktree = worktree
    findings.add_risks(worktree.notes)
    return worktree


def _shadow_dir(ports: HostPorts) -> str:
    return os.path.join(ports.runtime_dir, "shadow")


def _make_attempts(
    findings: Findings, launch: Launch, prompt: StagedPrompt, ports: HostPorts
) -> None:
    """Start the agent; once more, in the same worktree, after a plain nonzero exit."""
    number = 1
    while True:
        if ports.cancelled.is_set():
            raise Interrupted(REASON)
        if findings.worktree is None or not stands_in_place(findings.worktree):
            raise LaunchRefused(_REPLACED, remedy="no attempt was started in it")
        _enter(ports, "agent" if number == 1 else "agent again")
        attempted = make_attempt(launch, prompt, number, ports)
        findings.take_attempt(attempted)
        if not may_retry(attempted.run):
            break
        number += 1
    ports.record("agent_done", findings.agent.attempts, str(findings.agent.end))


@contextlib.contextmanager
def _keeping_the_first_attempt(findings: Findings) -> Iterator[None]:
    """What stops the second start must not stop the look at what the first one did."""
    try:
        yield
    except FleetError as error:
        if not findings.launches:
            raise
        findings.stop(error)


def _validate(findings: Findings, worktree: Worktree, launch: Launch, ports: HostPorts) -> None:
    """Run the checks. A stop that came during the look before them is a stop of the run: the
    agent's exit 0 must not stand for checks that nobody ran."""
    if ports.cancelled.is_set():
        findings.interrupt("stopped before validation")
        return
    _enter(ports, "validation")
    command = findings.order.request.validateCommand
    if stands_in_place(worktree):
        plan = plan_validation(command, launch.worktree, launch.environment, ports)
        outcomes, losses = run_plan(plan, launch.worktree, launch.environment, ports)
    else:
        plan = plan_checks(command, ())
        outcomes = tuple(never_started(planned, _REPLACED) for planned in plan.commands[:1])
        losses = ()
    findings.add_risks((*plan.risks, *losses))
    findings.validation = validation_of(plan, outcomes)
    findings.tests_attempted = attempted_lines(outcomes)
    if ports.cancelled.is_set():
        findings.interrupt("stopped during validation")
    ports.record("validated", findings.agent.attempts, "")


@contextlib.contextmanager
def _looking(findings: Findings) -> Iterator[None]:
    """A look that fails is a recorded risk: it is never read as "nothing changed"."""
    try:
        yield
    except CouldNotCheck as error:
        findings.add_risks([Risk(code="could_not_look", message=str(error))])


def _leave(findings: Findings, worktree: Worktree, ports: HostPorts) -> None:
    """Leave a worktree that an agent was in to its owner; take one away that is still unused."""
    try:
        if findings.launches:
            unlock_worktree(worktree)
            ports.trees.leave(worktree.job_id)
        else:
            remove_worktree(worktree, ports.trees)
            findings.worktree = None
    except FleetError as error:
        findings.add_risks([Risk(code=error.kind, message=str(error))])


def _enter(ports: HostPorts, phase: str) -> None:
    with contextlib.suppress(Exception):  # a watcher's trouble is not the run's
        ports.watch.phase(phase)
