"""One prompt to a CLI: the governor is asked, the prompt is staged and read back, the CLI started.

Owns the order of these steps, which is that of an attempt of `run_agent`. It makes no worktree,
looks at no files and runs no validation: what comes back is what the CLI printed.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from contracts.prompt import Harness
from contracts.run_agent import AgentName
from runagent.bookings import Bookings
from runagent.clis.prompt_lane import LANES, Asking
from runagent.clis.windows_shape import pwsh_argv
from runagent.governor import Admission, Governor, GovernorAnswer, Spent
from runagent.launch import make_private_directory, stage_prompt
from runagent.process import EndState, ProcessOutcome, ProcessSpec

_EMPTY = "empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOrder:
    """One question to a CLI. `program` is absolute, `command` what stands first in argv, `folder`
    the job's private one: the CLI works in an empty folder below it."""

    job_id: str
    harness: Harness
    prompt: str
    program: str
    command: tuple[str, ...]
    model: str
    variant: str
    environment: Mapping[str, str]
    folder: str
    limit_s: int


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of a question: how the CLI ended, or None and who denied it; `missing` is why
    nobody counted it, "" when somebody did."""

    outcome: ProcessOutcome | None
    denied: GovernorAnswer | None = None
    missing: str = ""


def run_prompt(
    order: PromptOrder, governor: Governor | None, perform: Callable[[ProcessSpec], ProcessOutcome]
) -> Answered:
    """Ask, and return what came of it. `perform` starts a process and waits for its end.

    Raises LaunchRefused when the prompt cannot be staged or read back: nothing was started then.
    """
    with contextlib.closing(_bookings(order, governor)) as bookings:
        answer = bookings.admit(1)
        if answer.admission is Admission.DENIED:
            return Answered(None, answer)
        missing = answer.phrase if answer.admission is Admission.MISSING else ""
        make_private_directory(order.folder)
        working = os.path.join(order.folder, _EMPTY)
        make_private_directory(working)
        with stage_prompt(order.prompt, order.folder) as staged:
            spec = _spec(order, staged.read_back(), staged.path, working)
            bookings.begin(1)
            outcome = perform(spec)
        started = outcome.state is not EndState.NOT_STARTED
        bookings.settle(1, Spent(started=started))
        return Answered(outcome, missing=missing)


def _bookings(order: PromptOrder, governor: Governor | None) -> Bookings:
    """Return the job's bookings. ollama runs on the host itself: it has no account to count on."""
    if order.harness is Harness.OLLAMA:
        return Bookings(None, AgentName.CODEX, order.job_id)
    return Bookings(governor, AgentName(order.harness.value), order.job_id)


def _spec(order: PromptOrder, text: str, path: Path, working: str) -> ProcessSpec:
    lane = LANES[order.harness]
    asking = Asking(
        command=order.command,
        prompt=text,
        folder=working,
        limit_s=order.limit_s,
        model=order.model,
        variant=order.variant,
    )
    argv, on_stdin = (order.program, *lane.argv(asking)[1:]), lane.prompt_on_stdin
    if sys.platform == "win32":
        argv, on_stdin = pwsh_argv(argv, text, str(path), prompt_on_stdin=on_stdin), False
    return ProcessSpec(
        argv=argv,
        cwd=working,
        env=order.environment,
        timeout_s=order.limit_s,
        stdin=text.encode("utf-8") if on_stdin else None,
    )
