"""One attempt: a start of the agent's CLI, its end, and what that end means.

Owns the order of the last steps before a start (ask the governor, read the prompt back, record,
start) and the raw tails of what was printed. It must never start anything after one of those
steps said no, and never start twice.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from contracts.errors import NotInstalled, Unavailable
from contracts.reason import Reason, ReasonCode
from contracts.run_agent import Risk
from runagent.agents import Agent, AgentPreset, Place
from runagent.agents.reading import Reading
from runagent.agents.reset_times import rfc3339
from runagent.attempt_end import Attempted, Patience, conclude
from runagent.bookings import Bookings
from runagent.cancellation import run_stoppable
from runagent.cli_check import CheckedCli
from runagent.clis.options import without_flags
from runagent.clis.windows_shape import pwsh_argv
from runagent.governor import Admission, GovernorAnswer
from runagent.host_zone import here
from runagent.launch import StagedPrompt
from runagent.ports import HostPorts, RunWatcher
from runagent.process import EndState, ProcessSpec
from runagent.tails import keep_tails
from validation.inert import one_line
from validation.verdict import AgentEnd, AgentRun

LINE_MAX_CHARS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What every attempt of a job has in common. `program` is the agent's CLI, absolute;
    `bookings` its starts at the governor, None: as the ports have it; `cli` what the host found
    out about it."""

    job_id: str
    agent: Agent
    preset: AgentPreset
    program: str
    worktree: str
    environment: Mapping[str, str]
    limit_s: float
    bookings: Bookings | None = None
    cli: CheckedCli | None = None


def find_program(agent: Agent, preset: AgentPreset, environment: Mapping[str, str]) -> str:
    """Return the absolute path of the agent's CLI.

    Only absolute entries of PATH are searched: a program that lies in the repository is never the
    agent. Raises NotInstalled naming the program and how to provide it.
    """
    name = preset.command[0]
    remedy = (
        f"install {agent.executable}, put its folder on this host's PATH, "
        f"or set command under [agents.{agent.name}] in its configuration"
    )
    if Path(name).is_absolute():
        path = name
    elif os.path.basename(name) == name:
        entries = environment.get("PATH", os.defpath).split(os.pathsep)
        path = os.pathsep.join(entry for entry in entries if Path(entry).is_absolute())
        return _found(shutil.which(name, path=path), name, remedy)
    else:
        raise Unavailable(f"the agent's command {name} is a relative path", remedy=remedy)
    return _found(shutil.which(path), name, remedy)


def _found(path: str | None, name: str, remedy: str) -> str:
    if path is None:
        raise NotInstalled(f"the agent's program {name} is not on PATH", remedy=remedy)
    return path


def make_attempt(launch: Launch, prompt: StagedPrompt, number: int, ports: HostPorts) -> Attempted:
    """Start the agent once, wait for its end, and return what that was.

    Raises LaunchRefused when the prompt cannot be read back: then nothing was started.
    """
    reading = Reading(
        launch.agent,
        _shown_to(ports.watch),
        ports.redactor,
        tell=lambda event: ports.events.append(event, number),
        monotonic=ports.clock.monotonic,
    )
    bookings = launch.bookings or Bookings(ports.governor, launch.agent.name, launch.job_id)
    answer = bookings.admit(number)
    if answer.admission is Admission.DENIED:
        return denied_start(launch.agent, answer, number)
    risks = []
    if answer.admission is Admission.MISSING:
        message = f"the governor did not answer, so this start was not booked ({answer.phrase})"
        risks.append(Risk(code="governor_missing", message=message))
    text = prompt.read_back()
    ports.record("started", number, "")
    bookings.begin(number)
    patience = Patience(reading, ports.retry_patience_s)
    outcome = run_stoppable(
        ports.runner, _spec(launch, text, prompt.path, reading), ports.cancelled, patience.is_over
    )
    reading.finish()
    if outcome.state is not EndState.NOT_STARTED:
        risks += keep_tails(ports.runtime_dir, f"attempt-{number}", outcome)
    now = here(ports.clock.wall(), launch.environment)
    return conclude(launch.agent.name, number, outcome, reading, patience, now, risks)


def denied_start(agent: Agent, answer: GovernorAnswer, number: int) -> Attempted:
    """Return the attempt `number` that the governor denied: nothing was started."""
    phrase = one_line(answer.phrase or "the governor denied this start", 500)
    run = AgentRun(end=AgentEnd.RATE_LIMITED, exit_code=None, attempts=number - 1, why=phrase)
    resets = None if answer.resets_at is None else datetime.fromtimestamp(answer.resets_at, UTC)
    reason = Reason(
        code=ReasonCode.GOVERNOR_DENIED.value,
        message=phrase,
        retryAfterSec=answer.retry_after_s,
        resetsAt=None if resets is None else rfc3339(resets),
    )
    return Attempted(run=run, launched=False, reading=Reading(agent), denied=answer, reason=reason)


def _spec(launch: Launch, text: str, path: Path, reading: Reading) -> ProcessSpec:
    place = Place(launch.worktree, max(1, int(launch.limit_s)))
    argv = launch.agent.argv(text, launch.preset, place)
    if launch.cli is not None:
        argv = without_flags(argv, launch.cli.left_out, launch.cli.facts)
    argv, on_stdin = (launch.program, *argv[1:]), launch.agent.prompt_on_stdin
    if sys.platform == "win32":  # npm's CLIs are scripts there
        argv, on_stdin = pwsh_argv(argv, text, str(path), prompt_on_stdin=on_stdin), False
    return ProcessSpec(
        argv=argv,
        cwd=launch.worktree,
        env=launch.environment,
        timeout_s=launch.limit_s,
        stdin=text.encode("utf-8") if on_stdin else None,
        sink=reading.take,
    )


def _shown_to(watch: RunWatcher) -> Callable[[str], None]:
    """Return what shows the agent's words to `watch`, one inert line at a time."""

    def show(text: str) -> None:
        line = one_line(text[: 4 * LINE_MAX_CHARS], LINE_MAX_CHARS)
        if line:
            with contextlib.suppress(Exception):  # a watcher's trouble is not the run's
                watch.agent_line(line)

    return show
