"""Events: one vocabulary for what four CLIs print, and the lines of a job's log.

An `Event` is what a reader makes of a line; a `JobEvent` is what the host writes down of it, with
its place in the job. Both are the agent's words and prove nothing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError


class EventKind(StrEnum):
    """The vocabulary. A new member is a change of the wire and needs an ADR."""

    SESSION = "session"  # data: sessionId
    USER = "user"
    TEXT = "text"  # text: what the agent said
    THINKING = "thinking"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    USAGE = "usage"
    PERMISSION = "permission"  # a tool was denied or is waiting for a person; data: denied
    RESULT = "result"  # the CLI's own end of a turn; data: isError, code
    STATUS = "status"
    ERROR = "error"  # data: fatal
    DELTA = "delta"  # live only, never kept
    APPROVAL = "approval"
    AUTH_EXPIRED = "auth_expired"
    QUOTA = "quota"  # a usage or rate limit; data: status, retryAfterSec, resetsAt


class Event(BaseModel):
    """One event read from one line. `text` is for people, `data` for programs; both are the
    agent's words and prove nothing."""

    model_config = ConfigDict(frozen=True, extra="allow")

    kind: EventKind
    text: str = ""
    data: dict[str, Any] = Field(default_factory=dict)


class JobEvent(BaseModel):
    """One event of a job's log, as it stands in `events.jsonl` and travels to the sender.

    `seq` counts from 1 without a gap. `attempt` is 0 before the agent was started. `kind` is one
    of EventKind; a reader tolerates another, and fields that it does not know.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    jobId: StrictStr
    attempt: Annotated[StrictInt, Field(ge=0)]
    seq: Annotated[StrictInt, Field(ge=1)]
    time: StrictStr  # RFC 3339, UTC
    kind: StrictStr
    text: StrictStr = ""
    data: dict[str, Any] = Field(default_factory=dict)


def read_job_event(line: str) -> JobEvent | None:
    """Return the event that a line of a log is, None for a torn or foreign one."""
    try:
        return JobEvent.model_validate_json(line)
    except ValidationError:
        return None
