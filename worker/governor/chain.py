"""Several governors as one: each must admit a start, and none keeps what another denied."""

from __future__ import annotations

from collections.abc import Sequence

from contracts.run_agent import AgentName
from runagent.governor import Admission, AgentLimit, Governor, GovernorAnswer, Spent


class GovernorChain:
    """See Governor. Asked in order."""

    def __init__(self, governors: Sequence[Governor]) -> None:
        self._governors = tuple(governors)

    def admit(self, agent: AgentName, job_id: str, attempt: int, /) -> GovernorAnswer:
        """See Governor.admit. One that is missing makes the answer missing, if none denies."""
        missing: GovernorAnswer | None = None
        for number, governor in enumerate(self._governors):
            answer = governor.admit(agent, job_id, attempt)
            if answer.admission is Admission.DENIED:
                for earlier in self._governors[:number]:
                    earlier.settle(agent, job_id, attempt, Spent(started=False))
                return answer
            if answer.admission is Admission.MISSING:
                missing = missing or answer
        return missing or GovernorAnswer(Admission.ALLOWED)

    def settle(self, agent: AgentName, job_id: str, attempt: int, spent: Spent, /) -> str:
        """See Governor.settle."""
        said = [governor.settle(agent, job_id, attempt, spent) for governor in self._governors]
        return "; ".join(text for text in said if text)

    def close_until(self, agent: AgentName, job_id: str, limit: AgentLimit, /) -> str:
        """See Governor.close_until."""
        said = [governor.close_until(agent, job_id, limit) for governor in self._governors]
        return "; ".join(text for text in said if text)
