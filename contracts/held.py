"""A host's statement of which generation of a sender's keys it holds.

Signed with a key of that generation, so that nobody else can say it; it stands in the heartbeat,
and a sender that has changed its keys learns from it when the old ones are needed no more.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr, ValidationError

from contracts.errors import EnvelopeRefused, InvalidRequest
from contracts.strict_json import parse_strict_object


class HeldClaims(BaseModel):
    """The signed statement. Unknown claims are kept: it reports, and asks for nothing."""

    model_config = ConfigDict(frozen=True, extra="allow")

    iss: StrictStr  # the host
    aud: StrictStr  # the sender
    generation: StrictInt
    grantedAt: StrictInt  # Unix seconds: of the grant that it took in


def read_held_claims(verified: bytes) -> HeldClaims:
    """Return the claims in bytes whose signature holds.

    Raises EnvelopeRefused (code `malformed`) for anything else.
    """
    try:
        return HeldClaims.model_validate(parse_strict_object(verified, field="held"))
    except (InvalidRequest, ValidationError) as error:
        raise EnvelopeRefused("the claims are not of keys held", code="malformed") from error
