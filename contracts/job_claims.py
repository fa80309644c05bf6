"""What a sender signs. Everything that selects behaviour is in here, inside the signature."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr, ValidationError

from contracts import limits
from contracts.errors import EnvelopeRefused, InvalidRequest
from contracts.ids import is_audience, is_job_id, is_name
from contracts.lifetime import check_lifetime
from contracts.strict_json import parse_strict_object


class JobClaims(BaseModel):
    """The inner JSON of a job envelope. Unknown claims are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    iss: StrictStr  # the sender
    aud: StrictStr  # host:NAME or lane:NAME
    lane: StrictStr
    kind: StrictStr
    jti: StrictStr  # the job id
    iat: StrictInt  # Unix seconds
    exp: StrictInt
    payload: dict[str, Any]  # the kind's own object


def read_job_claims(verified: bytes) -> JobClaims:
    """Return the claims in bytes whose signature holds.

    Raises EnvelopeRefused (code `malformed`) for anything that is not exactly a job's claims in
    strict JSON.
    """
    try:
        data = parse_strict_object(verified, field="envelope.payload")
        claims = JobClaims.model_validate(data)
    except (InvalidRequest, ValidationError) as error:
        raise EnvelopeRefused("the claims are not a job's", code="malformed") from error
    well_formed = (
        is_job_id(claims.jti)
        and is_name(claims.iss)
        and is_name(claims.lane)
        and is_name(claims.kind)
        and is_audience(claims.aud)
    )
    if not well_formed:
        raise EnvelopeRefused("a claim is not well-formed", code="malformed")
    return claims


def check_job_claims(claims: JobClaims, *, audiences: frozenset[str], now: float) -> None:
    """Check that a verified job is for us, and now.

    `audiences` are the audience claims this host answers to. Age and future have limits of their
    own, so that a skewed clock cannot double a job's life. Raises EnvelopeRefused with code
    `audience`, `lane`, `expired`, `not_yet_valid` or `lifetime`.
    """
    if claims.aud not in audiences:
        raise EnvelopeRefused("addressed elsewhere", code="audience")
    if claims.aud.startswith("lane:") and claims.aud != f"lane:{claims.lane}":
        raise EnvelopeRefused("audience and lane differ", code="lane")
    check_lifetime(claims.iat, claims.exp, longest_s=limits.JOB_TTL_MAX_S, now=now)
