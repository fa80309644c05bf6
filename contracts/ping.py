"""Kind `ping`: the question has no fields, the answer says who the host is.

The answer is the whole of the result's `stdoutTail`, as JSON.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr


class PingRequest(BaseModel):
    """The question. It has no fields: whatever is asked, the answer is the same."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def to_payload(self) -> dict[str, str | int]:
        """Return the JSON object to sign."""
        return {}


class PingAnswer(BaseModel):
    """Who answered. `time` is the host's own clock, RFC 3339, UTC."""

    model_config = ConfigDict(frozen=True, extra="allow")

    host: StrictStr
    version: StrictStr
    contractRevision: StrictInt
    time: StrictStr
