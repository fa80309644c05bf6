"""The spending seam: something outside may be asked before each start of an agent.

Owns the protocol, its values, and the governor that is a program named in the host's
configuration. A denial ends the job as rate limited, with the governor's own words. A governor
that is missing or does not answer must never stop the lane: the run goes on and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from contracts.run_agent import AgentName
from runagent.process import EndState, ProcessRunner, ProcessSpec, run
from validation.inert import first_line

_PHRASE_MAX_CHARS: Final = 500


class Admission(StrEnum):
    """The three answers: yes, no, and nobody there to ask."""

    ALLOWED = "allowed"
    DENIED = "denied"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class GovernorAnswer:
    """The answer, the words that came with it, and when asking again may help: in `retry_after_s`
    seconds, which is at `resets_at` (Unix seconds); None where nobody knows."""

    admission: Admission
    phrase: str = ""
    retry_after_s: int | None = None
    resets_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What one admitted start came to. `started` is false when nothing was started after all;
    None: the agent did not say."""

    started: bool
    tokens: int | None = None
    dollars: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimit:
    """A limit that an agent reported, and when it ends: at `resets_at` (Unix seconds) or after
    `retry_after_s` seconds from now."""

    code: str
    message: str = ""
    retry_after_s: int | None = None
    resets_at: int | None = None


class Governor(Protocol):
    """Admits starts of agents, and books them in the same step."""

    def admit(self, agent: AgentName, job_id: str, attempt: int, /) -> GovernorAnswer:
        """Return whether this start may happen. Called once before each start, never again for
        the same one; never raises."""
        ...

    def settle(self, agent: AgentName, job_id: str, attempt: int, spent: Spent, /) -> str:
        """Book what an admitted start came to. Returns "" or why it was not booked; twice counts
        once; never raises."""
        ...

    def close_until(self, agent: AgentName, job_id: str, limit: AgentLimit, /) -> str:
        """Let no start of `agent` on this host's account happen before `limit` ends. Returns "" or
        why that was not noted down; never raises."""
        ...


class OpenGovernor:
    """The governor of a host that has none: everything is allowed."""

    def admit(self, _agent: AgentName, _job_id: str, _attempt: int, /) -> GovernorAnswer:
        """See Governor.admit."""
        return GovernorAnswer(Admission.ALLOWED)

    def settle(self, _agent: AgentName, _job_id: str, _attempt: int, _spent: Spent, /) -> str:
        """See Governor.settle."""
        return ""

    def close_until(self, _agent: AgentName, _job_id: str, _limit: AgentLimit, /) -> str:
        """See Governor.close_until."""
        return ""


class CommandGovernor(OpenGovernor):
    """Asks a program, one argv per agent: exit 0 allows, any other exit denies, and the first
    line that it prints is the phrase. An agent without an argv is not governed. The program books
    as it admits: nothing is settled with it."""

    def __init__(
        self,
        commands: Mapping[AgentName, tuple[str, ...]],
        runner: ProcessRunner,
        environment: Mapping[str, str],
        *,
        cwd: str,
        timeout_s: float = 30.0,
    ) -> None:
        self._commands = dict(commands)
        self._runner = runner
        self._environment = dict(environment)
        self._cwd = cwd
        self._timeout_s = timeout_s

    def admit(self, agent: AgentName, _job_id: str, _attempt: int, /) -> GovernorAnswer:
        """See Governor.admit."""
        command = self._commands.get(agent)
        if command is None:
            return GovernorAnswer(Admission.ALLOWED)
        outcome = run(
            self._runner,
            ProcessSpec(
                argv=command,
                cwd=self._cwd,
                env=self._environment,
                timeout_s=self._timeout_s,
                grace_s=1.0,
                tail_bytes=16_384,
            ),
        )
        if outcome.state is not EndState.EXITED:
            return GovernorAnswer(Admission.MISSING, outcome.why[:_PHRASE_MAX_CHARS])
        if outcome.exit_code == 0:
            return GovernorAnswer(Admission.ALLOWED)
        phrase = first_line(outcome.stdout) or first_line(outcome.stderr)
        return GovernorAnswer(Admission.DENIED, phrase[:_PHRASE_MAX_CHARS])
