"""A sender's own end of its job: what it states when no host's result came in time.

Signed by the sender of the job and by nobody else, bound to the job's exact bytes. It ends the job
for its sender alone; a host's result that comes later is kept and shown beside it.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr, ValidationError

from contracts.errors import EnvelopeRefused, InvalidRequest
from contracts.receipt_code import ReceiptCode as ReceiptCode  # noqa: PLC0414 - named here, too
from contracts.strict_json import parse_strict_object


class ReceiptClaims(BaseModel):
    """The signed statement of a sender about one of its jobs."""

    model_config = ConfigDict(frozen=True, extra="allow")

    iss: StrictStr  # the sender
    aud: StrictStr  # the audience of the job: host:NAME or lane:NAME
    jti: StrictStr
    iat: StrictInt  # Unix seconds: when the sender ended the job
    jobSha256: StrictStr  # hex digest of the job's payload bytes
    code: ReceiptCode


def read_receipt_claims(verified: bytes) -> ReceiptClaims:
    """Return the claims in bytes whose signature holds.

    Raises EnvelopeRefused (code `malformed`) for anything that is not a receipt's claims in strict
    JSON, a code that this version does not know included.
    """
    try:
        return ReceiptClaims.model_validate(parse_strict_object(verified, field="receipt"))
    except (InvalidRequest, ValidationError) as error:
        raise EnvelopeRefused("the claims are not a receipt's", code="malformed") from error
