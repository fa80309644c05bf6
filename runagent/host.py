"""One run, from the order to the result.

Owns the order of the phases: check, worktree, look, start (twice at most), look, validate, look,
judge, leave. The agent's claims weigh nothing here. `run_agent` must never raise for anything that
a request, a repository, an agent or a validator does, and never leave something half made.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Final

from contracts.errors import FleetError, Interrupted
from contracts.run_agent import AgentName, Risk, RunAgentResult
from runagent.agents import AGENTS
from runagent.attempt import Launch, denied_start, find_program
from runagent.bookings import Bookings
from runagent.cancellation import REASON
from runagent.cli_check import check_cli
from runagent.disk_floor import refuse_below_floor
from runagent.environment import agent_environment
from runagent.findings import Findings
from runagent.governor import Admission
from runagent.launch import make_private_directory
from runagent.ports import HostPorts, RunOrder
from runagent.room_left import named_by_disk, risks_of_full_disks, volumes_of
from runagent.sandbox.protocol import Site, refuse_weaker, report_of
from runagent.trees.tree_removal import remove_if_empty
from runagent.trees.worktree import (
    Worktree,
    prepare_worktree,
    remove_worktree,
    unlock_worktree,
)
from runagent.work import enter, shadow_dir, work
from validation.admission import check_payload
from validation.paths import Grammar

__all__ = ["HostPorts", "RunOrder", "run_agent"]

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
        findings.stop(named_by_disk(error, volumes_of(order, ports)))
    except KeyboardInterrupt:
        ports.cancelled.set()
        findings.stop(Interrupted(REASON))
    except Exception as error:  # noqa: BLE001  # the top of a run: our bug is a result too
        findings.break_off(error)
    if findings.worktree is not None:
        _leave(findings, findings.worktree, ports)
    if findings.launches:
        findings.add_risks(risks_of_full_disks(volumes_of(order, ports)))
    result = findings.result(ports.clock.monotonic())
    ports.events.end(result)
    if not findings.launches:
        remove_if_empty(ports.runtime_dir)
    return result


def _carry_out(findings: Findings, ports: HostPorts) -> None:
    order = findings.order
    enter(ports, "checking")
    findings.sandbox = report_of(ports.sandbox)
    check_payload({**order.request.to_payload(), "repo": order.repo_on_host}, grammar=_OWN_GRAMMAR)
    refuse_weaker(ports.sandbox, order.require_sandbox)
    agent = AGENTS[AgentName(order.request.agent)]
    preset = ports.presets.get(agent.name) or agent.default_preset()
    environment = _environment(ports, agent.environment, preset.env)
    program = find_program(agent, preset, environment)
    refuse_below_floor(volumes_of(order, ports), ports.worktree.disk_floor_bytes)
    with contextlib.closing(Bookings(ports.governor, agent.name, order.job_id)) as bookings:
        answer = bookings.admit(1)  # before a worktree is made
        if answer.admission is Admission.DENIED:
            findings.take_attempt(denied_start(agent, answer, 1))
            return
        make_private_directory(ports.runtime_dir)
        cli = check_cli(agent.name, preset, program, environment, ports.look, cwd=ports.runtime_dir)
        findings.agent_version, findings.notes = cli.version, [*findings.notes, *cli.notes]
        enter(ports, "worktree")
        worktree = _make_worktree(findings, ports)
        launch = Launch(
            job_id=order.job_id,
            agent=agent,
            preset=preset,
            program=program,
            worktree=worktree.path,
            environment=environment,
            limit_s=order.agent_limit_s,
            bookings=bookings,
            cli=cli,
        )
        _work(findings, launch, worktree, ports)


def _work(findings: Findings, launch: Launch, worktree: Worktree, ports: HostPorts) -> None:
    """Let the agent work in its box."""
    site = Site(
        worktree=worktree,
        runtime_dir=ports.runtime_dir,
        agent=launch.agent.name,
        program=launch.program,
        environment=launch.environment,
        host_environment=ports.environment,
        runner=ports.runner,
        deadline_s=ports.git_timeout_s,
    )
    with contextlib.closing(ports.sandbox.enclose(site)) as box:
        work(findings, launch, worktree, box, ports)


def _environment(
    ports: HostPorts, defaults: Mapping[str, str], names: tuple[str, ...]
) -> dict[str, str]:
    """Return what agent and validator inherit, `names` of this agent alone among it; the agent's
    defaults yield to the host's own."""
    source = {**defaults, **ports.environment}
    return agent_environment(source, extra_names=(*ports.inherit, *defaults, *names))


def _make_worktree(findings: Findings, ports: HostPorts) -> Worktree:
    order = findings.order
    worktree = prepare_worktree(
        order.repo_on_host,
        job_id=order.job_id,
        ticket=order.request.ticket,
        branch=order.request.branch,
        shadow_dir=shadow_dir(ports),
        runner=ports.runner,
        deadline_s=ports.git_timeout_s,
        trees=ports.trees,
        trust=ports.trust,
        options=ports.worktree,
        environment=ports.environment,
        spares=ports.spares,
    )
    findings.worktree = worktree
    findings.add_risks(worktree.notes)
    return worktree


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
