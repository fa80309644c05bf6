"""Where the events of a run are written down, as the run sees it."""

from __future__ import annotations

from typing import Final, Protocol

from contracts.events import Event, EventKind
from contracts.run_agent import RunAgentResult


class EventLog(Protocol):
    """One job's log. Its trouble is never the run's: nothing here raises or waits for anybody."""

    def append(self, event: Event, attempt: int = 0) -> None:
        """Write `event` down, redacted and inert. Safe from several threads."""
        ...

    def end(self, result: RunAgentResult) -> None:
        """Write down how the job ended, and close the log."""
        ...


class NoLog:
    """Writes nothing."""

    def append(self, event: Event, attempt: int = 0) -> None:
        """See EventLog.append."""

    def end(self, result: RunAgentResult) -> None:
        """See EventLog.end."""


NO_LOG: Final = NoLog()


def status_event(phase: str) -> Event:
    """Return the event of a phase that the host enters."""
    return Event(kind=EventKind.STATUS, text=phase, data={"by": "host"})


def end_event(result: RunAgentResult, lost: int) -> Event:
    """Return the last event of a job; `lost` is how many events its log did not take."""
    reason = None if result.reason is None else result.reason.model_dump(mode="json")
    data = {
        "by": "host",
        "final": True,
        "status": result.status.value,
        "needsHumanReview": result.needs_human_review,
        "reason": reason,
        "unknownEvents": result.unknown_events,
        "lostEvents": lost,
    }
    return Event(kind=EventKind.STATUS, text=f"ended: {result.status.value}", data=data)
