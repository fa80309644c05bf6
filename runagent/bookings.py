"""The starts of one job as its governor has them: asked once each, settled once each.

Owns which starts were asked about and which are still open. The first start is asked about before a
worktree is made; what was admitted and never came to a start is given back at the end.
"""

from __future__ import annotations

from typing import Final

from contracts.run_agent import AgentName, Risk
from runagent.governor import (
    Admission,
    AgentLimit,
    Governor,
    GovernorAnswer,
    OpenGovernor,
    Spent,
)

_NOT_SETTLED: Final = "governor_not_settled"


class Bookings:
    """The bookings of one job."""

    def __init__(self, governor: Governor | None, agent: AgentName, job_id: str) -> None:
        """`governor` None: a host without one."""
        self._governor = governor or OpenGovernor()
        self._agent = agent
        self._job_id = job_id
        self._answers: dict[int, GovernorAnswer] = {}
        self._open: set[int] = set()
        self._started: set[int] = set()

    def admit(self, attempt: int) -> GovernorAnswer:
        """Return whether the start number `attempt` may happen; the governor is asked once."""
        if attempt not in self._answers:
            answer = self._governor.admit(self._agent, self._job_id, attempt)
            self._answers[attempt] = answer
            if answer.admission is not Admission.DENIED:  # of several, one may have booked it
                self._open.add(attempt)
        return self._answers[attempt]

    def begin(self, attempt: int) -> None:
        """Note that the start number `attempt` happens now: whatever becomes of the run, it is not
        given back as one that never came to a start."""
        self._started.add(attempt)

    def settle(self, attempt: int, spent: Spent) -> tuple[Risk, ...]:
        """Book what a start came to, once. Returns notes: what the governor did not take."""
        if attempt not in self._open:
            return ()
        self._open.discard(attempt)
        return _note(self._governor.settle(self._agent, self._job_id, attempt, spent))

    def close_until(self, limit: AgentLimit) -> tuple[Risk, ...]:
        """Tell the governor of a limit that the agent reported. Returns notes, as `settle`."""
        return _note(self._governor.close_until(self._agent, self._job_id, limit))

    def close(self) -> None:
        """Give back what was admitted and never came to a start. A start that nobody settled keeps
        what was set aside for it."""
        for attempt in sorted(self._open):
            self.settle(attempt, Spent(started=attempt in self._started))


def _note(trouble: str) -> tuple[Risk, ...]:
    if not trouble:
        return ()
    message = f"the governor did not take what this run came to ({trouble})"
    return (Risk(code=_NOT_SETTLED, message=message),)
