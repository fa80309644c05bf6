"""A host's signed word about one message of a sender: what became of it at the host's door.

Signed with the host's `delivery` key and bound to the job's exact bytes, so that neither a broker
nor a machine in between can say `accepted` for a host. It says nothing about how a job ends: that
is the result's alone.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr, ValidationError

from contracts import limits
from contracts.delivery_code import DeliveryCode as DeliveryCode  # noqa: PLC0414 - named here, too
from contracts.errors import EnvelopeRefused, InvalidRequest
from contracts.strict_json import parse_strict_object


class DeliveryClaims(BaseModel):
    """The signed statement of a host about one message that reached it."""

    model_config = ConfigDict(frozen=True, extra="allow")

    iss: StrictStr  # the host
    aud: StrictStr  # the sender
    jti: StrictStr  # the job's id
    iat: StrictInt  # Unix seconds: when the host said it
    jobSha256: StrictStr  # hex digest of the job's payload bytes; "" where the host knows no job
    code: DeliveryCode
    state: StrictStr = ""  # where the job stands in the host's journal, "" when it is in none
    note: StrictStr = ""  # a short sentence for people
    nonce: StrictStr = ""  # of the ask that it answers: an old answer is not a new one


def delivery_claims(
    *,
    host: str,
    sender: str,
    job_id: str,
    job_sha256: str,
    code: DeliveryCode,
    now: float,
    state: str = "",
    note: str = "",
    nonce: str = "",
) -> DeliveryClaims:
    """Return the claims of one receipt; a note is cut at its bound."""
    return DeliveryClaims(
        iss=host,
        aud=sender,
        jti=job_id,
        iat=int(now),
        jobSha256=job_sha256,
        code=code,
        state=state,
        note=note[: limits.DELIVERY_NOTE_MAX_CHARS],
        nonce=nonce,
    )


def read_delivery_claims(verified: bytes) -> DeliveryClaims:
    """Return the claims in bytes whose signature holds.

    Raises EnvelopeRefused (code `malformed`) for anything that is not a delivery receipt's claims
    in strict JSON, a code that this version does not know included.
    """
    try:
        return DeliveryClaims.model_validate(parse_strict_object(verified, field="delivery"))
    except (InvalidRequest, ValidationError) as error:
        raise EnvelopeRefused(
            "the claims are not a delivery receipt's", code="malformed"
        ) from error
