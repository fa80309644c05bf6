"""Why an agent's run ended as it did, in words for programs: an additive part of the result.

Owns the codes and the value. A status says what becomes of a job, a reason what a person or a
scheduler does next: wait until when, log in, pay, look at the agent. A reader must tolerate a code
that it does not know.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr


class ReasonCode(StrEnum):
    """The codes. A new member needs a line in docs/agents.md."""

    RATE_LIMIT = "rate_limit"  # too many requests for a short while
    USAGE_LIMIT = "usage_limit"  # a window or a quota is used up; there is a reset time
    AUTH_EXPIRED = "auth_expired"  # no login, a wrong key, an expired one
    BILLING = "billing"  # no credit left, no plan for this
    OVERLOADED = "overloaded"  # the service answers with 5xx
    DROPPED_STREAM = "dropped_stream"  # the answer broke off on its way
    PERMISSION_DENIED = "permission_denied"  # a tool was refused
    TURN_FAILED = "turn_failed"  # by the CLI's own word, or it stopped half way
    CONTEXT_FULL = "context_full"  # the prompt or the session is too large for the model
    CRASHED = "crashed"  # a signal that was not ours
    NOT_INSTALLED = "not_installed"  # the program is not there or cannot be started
    STOPPED_BY_US = "stopped_by_us"  # a time limit, a drain, a person
    GOVERNOR_DENIED = "governor_denied"  # this fleet's own budget said no before the start


class Reason(BaseModel):
    """One reason. `retryAfterSec` counts from the end of the run; `resetsAt` is RFC 3339 in UTC
    (`2026-10-01T18:00:00Z`); null where nobody said."""

    model_config = ConfigDict(frozen=True, extra="allow")

    code: StrictStr
    message: StrictStr = ""
    retryAfterSec: StrictInt | None = None
    resetsAt: StrictStr | None = None
