"""A sender's question about a job of its own, to one host: its result, its events, its state.

Only who signed the job may ask, and each question is answered once: without a fresh signature
nobody who reaches a door reads anything.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from contracts import limits
from contracts.errors import EnvelopeRefused, InvalidRequest
from contracts.ids import is_audience, is_job_id, is_name
from contracts.lifetime import check_lifetime
from contracts.strict_json import parse_strict_object


class Asked(StrEnum):
    """What is asked for."""

    RESULT = "result"
    EVENTS = "events"  # from number `fromSeq` on
    STATE = "state"


class AskClaims(BaseModel):
    """The inner JSON of an ask envelope. Unknown claims are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    iss: StrictStr  # the sender of the job
    aud: StrictStr  # host:NAME, the one that is asked
    jti: StrictStr  # the job's id
    iat: StrictInt  # Unix seconds
    exp: StrictInt
    nonce: StrictStr  # as random as a job id, and never used twice
    what: Asked
    fromSeq: Annotated[StrictInt, Field(ge=0)] = 0


def read_ask_claims(verified: bytes) -> AskClaims:
    """Return the claims in bytes whose signature holds.

    Raises EnvelopeRefused (code `malformed`) for anything that is not exactly an ask's claims in
    strict JSON, something asked for that this version does not know included.
    """
    try:
        claims = AskClaims.model_validate(
            parse_strict_object(verified, field="ask", max_bytes=limits.CONTROL_MAX_BYTES)
        )
    except (InvalidRequest, ValidationError) as error:
        raise EnvelopeRefused("the claims are not an ask's", code="malformed") from error
    well_formed = (
        is_name(claims.iss)
        and is_audience(claims.aud)
        and claims.aud.startswith("host:")
        and is_job_id(claims.jti)
        and is_job_id(claims.nonce)
    )
    if not well_formed:
        raise EnvelopeRefused("a claim is not well-formed", code="malformed")
    return claims


def check_ask_claims(claims: AskClaims, *, audience: str, now: float) -> None:
    """Check that a verified ask is for the host behind `audience`, and now.

    Raises EnvelopeRefused with code `audience`, or one of `check_lifetime`'s. Whether its nonce was
    used before is for the host to know.
    """
    if claims.aud != audience:
        raise EnvelopeRefused("addressed elsewhere", code="audience")
    check_lifetime(claims.iat, claims.exp, longest_s=limits.ASK_TTL_MAX_S, now=now)
