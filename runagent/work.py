"""What is done in a worktree that stands: look, start the agent (twice at most), look, validate,
look.

Owns the order of these phases and which of them a failure ends. Agent and validator run in the
box, every look outside of it. It must never start anything in another place than the worktree.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import Final

from contracts.errors import CouldNotCheck, FleetError, Interrupted, LaunchRefused
from contracts.run_agent import Risk
from contracts.sandbox import Capability
from runagent.around.surroundings import Around, Surroundings
from runagent.attempt import Launch, make_attempt
from runagent.cancellation import REASON
from runagent.events.protocol import status_event
from runagent.evidence.evidence import EvidenceCollector
from runagent.findings import Findings
from runagent.git.ignore_rules import owner_excludes
from runagent.launch import StagedPrompt, stage_prompt
from runagent.ports import HostPorts
from runagent.sandbox.protocol import Box
from runagent.settling import settle
from runagent.trees.worktree import Worktree, stands_in_place
from runagent.validation_run import never_started, plan_validation, run_plan
from validation.checks import attempted_lines, plan_checks, validation_of
from validation.verdict import AgentEnd, goes_on_to_validation, may_retry

SETTLE_S: Final = 1.0  # what others are in the middle of takes milliseconds: a ref, a removal
_PLANTED_NAMED: Final = 5
_REPLACED: Final = "the worktree is gone or was replaced by something else"


def work(
    findings: Findings, launch: Launch, worktree: Worktree, box: Box, ports: HostPorts
) -> None:
    """Look, let the agent work, look, validate, look. Only agent and validator are in the box."""
    boxed = dataclasses.replace(ports, runner=box.around(ports.runner))
    collector = EvidenceCollector(
        worktree,
        shadow_dir=shadow_dir(ports),
        runner=ports.runner,
        deadline_s=ports.git_timeout_s,
        git=box.git,
        bounds=ports.manifest_bounds,
        shared_is_safe=Capability.GIT in ports.sandbox.enforces,
    )
    start = collector.start()
    around = _look_around(worktree, box, ports, None if start.changed else start.entries)
    with (
        _keeping_the_first_attempt(findings),
        stage_prompt(findings.order.request.task, ports.runtime_dir) as prompt,
    ):
        _make_attempts(findings, launch, prompt, boxed)
    if not findings.launches:
        return
    with _looking(findings):
        enter(ports, "looking")
        collector.after_agent()
    findings.add_risks(box.bring_home())
    # Nothing of the agent's lives on: its box saw to that, and its own end was reported.
    was_ended = findings.agent.end in (AgentEnd.TIMED_OUT, AgentEnd.ABORTED)
    is_quiet = Capability.PROCESSES in ports.sandbox.enforces and not was_ended
    if goes_on_to_validation(findings.agent):
        with _looking(findings):
            box.renew()
        is_quiet = not _validate(findings, worktree, launch, boxed) and is_quiet
    with _looking(findings):
        enter(ports, "looking")
        findings.evidence = collector.after_validation(is_as_the_agent_left_it=is_quiet)
        findings.add_risks(findings.evidence.risks)
    findings.add_risks(box.bring_home())
    if around is not None:
        _tell_around(findings, around.after_job(), worktree, ports)


def _look_around(
    worktree: Worktree, box: Box, ports: HostPorts, entries: Mapping[bytes, bytes] | None
) -> Surroundings | None:
    """Look at what lies around the worktree, where the host asks for it. `entries` are the files of
    its commit, None where the checkout differs from it."""
    if ports.watch_list is None:
        return None
    around = Surroundings(
        worktree,
        runner=ports.runner,
        git=box.git,
        enforces=ports.sandbox.enforces,
        watch_list=ports.watch_list,
        excludes=owner_excludes(worktree.repo, ports.environment),
        deadline_s=ports.git_timeout_s,
        pause=lambda: ports.clock.wait(ports.cancelled, SETTLE_S),
    )
    around.start(entries)
    return around


def _tell_around(findings: Findings, around: Around, worktree: Worktree, ports: HostPorts) -> None:
    """Record what changed around the worktree, and set a repository with planted programs aside."""
    findings.add_risks(around.risks)
    findings.notes.extend(around.notes)
    if not around.planted:
        return
    named = ", ".join(around.planted[:_PLANTED_NAMED])
    message = (
        f"the repository is set aside, no further job is started on it: {named} appeared during "
        f"this one and git would run it (fleet-dispatch repo trust {worktree.repo} on the host)"
    )
    findings.add_risks([Risk(code="repo_quarantined", message=message)])
    try:
        ports.trust.quarantine(
            worktree.common_dir,
            repo=worktree.repo,
            job_id=worktree.job_id,
            why=around.planted,
        )
    except FleetError as error:
        message = f"the repository could not be set aside: {error.message}"
        findings.add_risks([Risk(code=error.kind, message=message)])


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
        enter(ports, "agent" if number == 1 else "agent again")
        attempted = make_attempt(launch, prompt, number, ports)
        findings.take_attempt(attempted)
        if launch.bookings is not None:
            findings.notes += settle(launch.bookings, number, attempted)
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


def _validate(findings: Findings, worktree: Worktree, launch: Launch, ports: HostPorts) -> bool:
    """Run the checks; say whether there were any to start. A stop that came during the look before
    them is a stop of the run: the agent's exit 0 must not stand for checks that nobody ran."""
    if ports.cancelled.is_set():
        findings.interrupt("stopped before validation")
        return False
    enter(ports, "validation")
    order = findings.order
    command, argv = order.request.validateCommand, order.validator
    if stands_in_place(worktree):
        plan = plan_validation(command, argv, launch.worktree, launch.environment, ports)
        outcomes, losses = run_plan(plan, launch.worktree, launch.environment, ports)
    else:
        plan = plan_checks(command, (), argv=argv)
        outcomes = tuple(never_started(planned, _REPLACED) for planned in plan.commands[:1])
        losses = ()
    findings.add_risks((*plan.risks, *losses))
    findings.validation = validation_of(plan, outcomes)
    findings.tests_attempted = attempted_lines(outcomes)
    if ports.cancelled.is_set():
        findings.interrupt("stopped during validation")
    ports.record("validated", findings.agent.attempts, "")
    return bool(plan.commands)


@contextlib.contextmanager
def _looking(findings: Findings) -> Iterator[None]:
    """A look that fails is a recorded risk: it is never read as "nothing changed"."""
    try:
        yield
    except CouldNotCheck as error:
        findings.add_risks([Risk(code="could_not_look", message=str(error))])


def enter(ports: HostPorts, phase: str) -> None:
    """Tell the watcher that the run enters `phase`."""
    ports.events.append(status_event(phase))
    with contextlib.suppress(Exception):  # a watcher's trouble is not the run's
        ports.watch.phase(phase)


def shadow_dir(ports: HostPorts) -> str:
    """Return the host's own git directory for the job's worktree."""
    return os.path.join(ports.runtime_dir, "shadow")
