"""Running the checks that judge the work.

Owns the start of each planned command in the worktree: the same process control as the agent's,
a time limit of its own, the same environment. The sender's command is the one text that a shell
gets, with `pipefail` where the shell has it. It must never run a command of the agent's choosing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Final

from contracts.run_agent import CommandState, Risk
from runagent.cancellation import run_stoppable
from runagent.ports import HostPorts
from runagent.process import EndState, ProcessOutcome, ProcessSpec
from runagent.tails import keep_tails
from validation.checks import CheckOutcome, Plan, PlannedCommand, command_state, plan_checks

_ROOT_NAMES_MAX: Final = 20_000


def plan_validation(
    validate_command: str | None,
    argv: tuple[str, ...],
    worktree: str,
    environment: Mapping[str, str],
    ports: HostPorts,
) -> Plan:
    """Return what will judge the work in `worktree` (absolute). `argv` is what `validate_command`
    names, () when it is a command for a shell."""
    return plan_checks(
        validate_command,
        _root_names(worktree),
        ports.detectors,
        pipefail=_find_bash(environment) is not None,
        argv=argv,
    )


def run_plan(
    plan: Plan, worktree: str, environment: Mapping[str, str], ports: HostPorts
) -> tuple[tuple[CheckOutcome, ...], tuple[Risk, ...]]:
    """Run the commands of `plan` in order, up to the first that does not pass.

    What command N printed is kept on this host as `validation-N.stdout` and `.stderr`; the risks
    say where that failed.
    """
    outcomes: list[CheckOutcome] = []
    risks: list[Risk] = []
    for number, planned in enumerate(plan.commands, start=1):
        if ports.cancelled.is_set():
            break
        ended = _run_one(planned, worktree, environment, ports)
        if ended.state is not EndState.NOT_STARTED:
            risks += keep_tails(ports.runtime_dir, f"validation-{number}", ended)
        outcome = _told(planned, ended, ports.validation_timeout_s)
        outcomes.append(outcome)
        if outcome.state is not CommandState.PASSED:
            break
    return tuple(outcomes), tuple(risks)


def never_started(planned: PlannedCommand, why: str) -> CheckOutcome:
    """Return the outcome of a command that was not run because of `why`."""
    return CheckOutcome(text=planned.text, state=CommandState.NOT_RUN, why=why)


def _run_one(
    planned: PlannedCommand, worktree: str, environment: Mapping[str, str], ports: HostPorts
) -> ProcessOutcome:
    spec = ProcessSpec(
        argv=planned.argv or _shell_argv(planned.text, environment),
        cwd=worktree,
        env=environment,
        timeout_s=ports.validation_timeout_s,
    )
    return run_stoppable(ports.runner, spec, ports.cancelled)


def _told(planned: PlannedCommand, outcome: ProcessOutcome, limit_s: float) -> CheckOutcome:
    timed_out = outcome.state is EndState.TIMED_OUT
    code = outcome.exit_code if outcome.state in (EndState.EXITED, EndState.ABORTED) else None
    state = command_state(code, timed_out=timed_out)
    if outcome.state is EndState.ABORTED and state is CommandState.PASSED:
        state = CommandState.FAILED  # it was stopped: whatever it says, it did not pass
    return CheckOutcome(
        text=planned.text,
        state=state,
        exit_code=code,
        seconds=outcome.seconds,
        why="" if timed_out else outcome.why,
        limit_s=limit_s if timed_out else 0.0,
    )


def _shell_argv(command: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    bash = _find_bash(environment)
    if bash is not None:
        return (bash, "-o", "pipefail", "-c", command)
    return ("sh", "-c", command)


def _find_bash(environment: Mapping[str, str]) -> str | None:
    entries = environment.get("PATH", os.defpath).split(os.pathsep)
    return shutil.which("bash", path=os.pathsep.join(e for e in entries if os.path.isabs(e)))


def _root_names(worktree: str) -> list[str]:
    """Return the names of the plain files at the root, links not followed, bounded."""
    names: list[str] = []
    try:
        with os.scandir(worktree) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    names.append(entry.name)
                if len(names) >= _ROOT_NAMES_MAX:
                    break
    except OSError:
        return []
    return names
