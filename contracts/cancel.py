"""A sender's order to end a job of its own: what it signs, and when that counts.

It ends one job and nothing else: id, audience and the exact bytes of the job are inside the
signature. Unknown claims are refused, as in everything that asks for something.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr, ValidationError

from contracts import limits
from contracts.errors import EnvelopeRefused, InvalidRequest
from contracts.ids import is_audience, is_job_id, is_name, is_sha256
from contracts.lifetime import check_lifetime
from contracts.strict_json import parse_strict_object


class CancelClaims(BaseModel):
    """The inner JSON of a cancel envelope."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    iss: StrictStr  # the sender of the job
    aud: StrictStr  # the audience of the job: host:NAME or lane:NAME
    jti: StrictStr  # the job's id
    iat: StrictInt  # Unix seconds
    exp: StrictInt
    jobSha256: StrictStr  # hex digest of the job's payload bytes
    why: StrictStr = ""  # the sender's words for people; part of the result's risk


def read_cancel_claims(verified: bytes) -> CancelClaims:
    """Return the claims in bytes whose signature holds.

    Raises EnvelopeRefused (code `malformed`) for anything that is not exactly a cancel's claims in
    strict JSON.
    """
    try:
        claims = CancelClaims.model_validate(
            parse_strict_object(verified, field="cancel", max_bytes=limits.CONTROL_MAX_BYTES)
        )
    except (InvalidRequest, ValidationError) as error:
        raise EnvelopeRefused("the claims are not a cancel's", code="malformed") from error
    well_formed = (
        is_name(claims.iss)
        and is_audience(claims.aud)
        and is_job_id(claims.jti)
        and is_sha256(claims.jobSha256)
        and len(claims.why) <= limits.WHY_MAX_CHARS
    )
    if not well_formed:
        raise EnvelopeRefused("a claim is not well-formed", code="malformed")
    return claims


def check_cancel_claims(claims: CancelClaims, *, audiences: frozenset[str], now: float) -> None:
    """Check that a verified cancel is for us, and now.

    `audiences` are the audience claims this host answers to. Raises EnvelopeRefused with code
    `audience`, or one of `check_lifetime`'s.
    """
    if claims.aud not in audiences:
        raise EnvelopeRefused("addressed elsewhere", code="audience")
    check_lifetime(claims.iat, claims.exp, longest_s=limits.CANCEL_TTL_MAX_S, now=now)
