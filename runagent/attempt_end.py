"""How an attempt ended: the process's end, the CLI's words and our own stops, put together.

Owns the value and the order of what counts: a stop by us first, by our own flag, since a stopped
CLI may well exit 0 and report success; the classification after that. It starts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from contracts.reason import Reason, ReasonCode
from contracts.run_agent import AgentName, Risk
from runagent.agents.classify import classify
from runagent.agents.reading import Reading
from runagent.agents.reasons import Ended, reason_of
from runagent.governor import GovernorAnswer
from runagent.process import EndState, ProcessOutcome
from validation.inert import one_line
from validation.verdict import AgentEnd, AgentRun

_STOPPED: Final = {
    EndState.TIMED_OUT: AgentEnd.TIMED_OUT,
    EndState.ABORTED: AgentEnd.ABORTED,
    EndState.NOT_STARTED: AgentEnd.NOT_STARTED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """How an attempt ended. `launched` is false when nothing was started, `denied` the governor's
    answer where that is why."""

    run: AgentRun
    launched: bool
    reading: Reading
    outcome: ProcessOutcome | None = None
    risks: tuple[Risk, ...] = ()
    reason: Reason | None = None
    denied: GovernorAnswer | None = None


class Patience:
    """Ends the patience with a CLI that announces retries because of a limit or a login and does
    not get on. Remembers that it did: that flag, and no exit code, says what the stop was."""

    def __init__(self, reading: Reading, longest_s: float) -> None:
        self._reading = reading
        self._longest_s = longest_s
        self.gave_up_on: ReasonCode | None = None

    def is_over(self) -> bool:
        """Say whether the CLI is to be stopped now."""
        if self._reading.has_tried_for() < self._longest_s:
            return False
        self.gave_up_on = self._reading.quota.retrying_for
        return self.gave_up_on is not None


def conclude(
    agent: AgentName,
    number: int,
    outcome: ProcessOutcome,
    reading: Reading,
    patience: Patience,
    now: datetime,
    risks: Sequence[Risk],
) -> Attempted:
    """Return what became of attempt `number`, whose output is read to its end."""
    gave_up = patience.gave_up_on if outcome.state is EndState.ABORTED else None
    found: list[Risk] = list(risks)
    exit_code = outcome.exit_code
    why = outcome.why
    if gave_up is not None:
        # No exit code: it would be the answer to our signal. Without one nothing is tried again.
        end, exit_code = _given_up(gave_up), None
    elif outcome.state in _STOPPED:
        end = _STOPPED[outcome.state]
    else:
        classified = classify(agent, exit_code, reading)
        end, why = classified.end, ""
        found += classified.risks
    if end is AgentEnd.RATE_LIMITED:
        why = "; ".join(filter(None, (one_line(reading.quota.message, 300), why)))
    ended = Ended(agent=agent.value, end=end, exit_code=exit_code, why=why)
    launched = outcome.state is not EndState.NOT_STARTED
    attempts = number if launched else number - 1
    return Attempted(
        run=AgentRun(end=end, exit_code=exit_code, attempts=attempts, why=why),
        launched=launched,
        reading=reading,
        outcome=outcome,
        risks=tuple(found),
        reason=reason_of(ended, reading, now),
    )


def _given_up(code: ReasonCode) -> AgentEnd:
    """A limit passes by itself; a login does not, and no second attempt would find it."""
    return AgentEnd.FAILED if code is ReasonCode.AUTH_EXPIRED else AgentEnd.RATE_LIMITED
