"""A run of events on its way to the sender, signed by the host and bound to the job's bytes.

The events travel as the very lines of the host's log, so that a replay is exact. A batch says with
which number it begins; who gets batches puts them in order, sees a gap and asks the host.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from contracts.errors import EnvelopeRefused, InvalidRequest
from contracts.events import JobEvent, read_job_event
from contracts.strict_json import parse_strict_object


class EventBatch(BaseModel):
    """The claims of one batch."""

    model_config = ConfigDict(frozen=True, extra="allow")

    iss: StrictStr  # the host
    aud: StrictStr  # the sender
    jti: StrictStr  # the job's id
    iat: StrictInt  # Unix seconds: when the host sent it
    jobSha256: StrictStr  # hex digest of the job's payload bytes
    first: Annotated[StrictInt, Field(ge=1)]  # the number of the first line
    lines: Annotated[tuple[StrictStr, ...], Field(min_length=1)]


def read_event_batch(verified: bytes) -> tuple[EventBatch, tuple[JobEvent, ...]]:
    """Return the batch in bytes whose signature holds, and its events in their order.

    Raises EnvelopeRefused (code `malformed`) for anything else: a line that is no event, one of
    another job, and numbers that do not follow each other included.
    """
    try:
        batch = EventBatch.model_validate(parse_strict_object(verified, field="events"))
    except (InvalidRequest, ValidationError) as error:
        raise EnvelopeRefused("the claims are not a batch of events", code="malformed") from error
    events = tuple(
        event
        for line in batch.lines
        if (event := read_job_event(line)) and event.jobId == batch.jti
    )
    wanted = list(range(batch.first, batch.first + len(batch.lines)))
    if [event.seq for event in events] != wanted:
        raise EnvelopeRefused("the events do not follow each other", code="malformed")
    return batch, events
