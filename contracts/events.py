"""The kinds of events that every agent's output is read into: one vocabulary for four CLIs."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


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
