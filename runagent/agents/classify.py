"""What an agent's exit means: pure.

Owns the reading of exit code, events and error text into an end, in that order of weight. After
exit 0 the work goes to validation whatever was printed; the CLI's own word that its turn failed can
only make the verdict worse. A limit or a stalled approval is only ever seen after a nonzero exit,
from the CLI's events first and from its own error lines second, never from what the agent said. A
stop by us is not for this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from contracts.run_agent import AgentName, Risk
from runagent.agents import phrases
from runagent.agents.reading import Reading
from validation.verdict import AgentEnd

# gemini-cli exits with the HTTP status modulo 256: 429 is 173 (measured).
_LIMIT_EXITS: Final = frozenset({(AgentName.GEMINI, 173)})
_LAST_LINES: Final = 5


@dataclass(frozen=True, slots=True)
class Classified:
    """The end of an attempt that ended by itself, and what people should know about it."""

    end: AgentEnd
    risks: tuple[Risk, ...]


def classify(agent: AgentName, exit_code: int | None, reading: Reading) -> Classified:
    """Return what `exit_code` means in the light of `reading`, which is complete."""
    return Classified(_end(agent, exit_code, reading), _risks(exit_code, reading))


def _end(agent: AgentName, exit_code: int | None, reading: Reading) -> AgentEnd:
    if exit_code == 0:
        return AgentEnd.FAILED if reading.turn_failed else AgentEnd.EXITED_OK
    if is_limited(agent, exit_code, reading):
        return AgentEnd.RATE_LIMITED
    return AgentEnd.APPROVAL_REQUIRED if _is_stalled(reading) else AgentEnd.FAILED


def is_limited(agent: AgentName, exit_code: int | None, reading: Reading) -> bool:
    """Say whether a nonzero exit was a usage limit, a rate limit or a quota."""
    if reading.quota.limited or (agent, exit_code) in _LIMIT_EXITS:
        return True
    if reading.ended or reading.errors:
        return False  # the CLI's events told how it ended; its lines are of something else
    return any(phrases.is_a_limit_report(line) for line in _reports(reading))


def _is_stalled(reading: Reading) -> bool:
    if reading.login_missing:
        return False  # a person must log in on that host; no approval would help
    if reading.denials or reading.approvals:
        return True
    return any(phrases.is_a_denial_report(line) for line in _reports(reading))


def _reports(reading: Reading) -> tuple[str, ...]:
    """Return the plain lines that can be a report of the CLI itself. Where it prints events, its
    stdout holds reports as events alone; where it prints text, the report is what ends it."""
    spoken = () if reading.events else tuple(reading.plain["stdout"])[-_LAST_LINES:]
    return (*reading.plain["stderr"], *spoken)


def _risks(exit_code: int | None, reading: Reading) -> tuple[Risk, ...]:
    risks = []
    if exit_code == 0 and reading.turn_failed:
        risks.append(Risk(code="turn_failed", message=_turn_failure(reading)))
    if exit_code == 0 and reading.events and not reading.ended:
        # Seen of claude and gemini after a signal from elsewhere.
        message = "the agent exited 0 without its CLI's word that the turn had ended"
        risks.append(Risk(code="turn_unfinished", message=message))
    if exit_code == 0 and reading.answer_cut:
        message = "the agent's last answer broke off: its length or its context had reached a bound"
        risks.append(Risk(code="turn_unfinished", message=message))
    denied = list(reading.denials)
    if not denied and any(phrases.is_a_denial_report(line) for line in reading.plain["stderr"]):
        denied = [""]
    if denied:
        risks.append(Risk(code="permission_denied", message=_denial(denied)))
    if reading.approvals:
        risks.append(
            Risk(
                code="approval_asked",
                message="the agent asked for an approval and nobody was there to give it",
            )
        )
    if reading.login_missing:
        risks.append(
            Risk(
                code="login_missing",
                message="the agent reports a missing or expired login: log in on this host",
            )
        )
    return tuple(risks)


def _turn_failure(reading: Reading) -> str:
    return "the agent exited 0 though its own last event says that the turn failed" + (
        f" ({reading.end_code[:40]})" if reading.end_code else ""
    )


def _denial(denied: list[str]) -> str:
    names = sorted({name for name in denied if name})
    tools = f": {', '.join(names)}" if names else ""
    return f"the agent was denied a permission it asked for{tools}"
