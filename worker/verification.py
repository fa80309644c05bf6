"""From the text that came through a door to a job that its sender meant for us, now.

The only door: who holds a `VerifiedJob` holds claims whose signature, issuer, audience, lane and
time were checked. Touches no disk and no network.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass

from contracts import naming
from contracts.envelope import JOB_TYPE, VerifierLookup, open_envelope
from contracts.errors import EnvelopeRefused
from contracts.job_claims import JobClaims, check_job_claims, read_job_claims
from dispatch.keys import JOB, parse_key_id


@dataclass(frozen=True, slots=True)
class VerifiedJob:
    """A job's claims as signed, the key that signed, and the hash that its result is bound to."""

    claims: JobClaims
    kid: str
    sha256: str

    @property
    def is_for_a_lane(self) -> bool:
        """Say whether any host of the lane may take it."""
        return self.claims.aud.startswith("lane:")


class ExpiredJob(VerifiedJob):
    """A job that its sender meant for us, for a time that is over: it may be ended, never run."""


def verify_job(
    text: str | bytes,
    *,
    job_id: str | None,
    keys: VerifierLookup,
    host: str,
    lanes: Collection[str],
    now: float,
) -> VerifiedJob:
    """Return the verified job in the envelope `text` that stood in Redis as `job_id`; None for one
    that stood nowhere, and is what its signed text says.

    One whose time is over, and nothing else is wrong, is an ExpiredJob. Raises EnvelopeRefused (its
    code is for our log) or InvalidRequest for JSON that is not strict.
    """
    opened = open_envelope(text, keys, JOB_TYPE)
    claims = read_job_claims(opened.payload)
    key_id = parse_key_id(opened.kid)
    if key_id is None or (key_id.iss, key_id.purpose, key_id.aud) != (claims.iss, JOB, claims.aud):
        raise EnvelopeRefused("signed with a key for something else", code="foreign_key")
    if job_id is not None and claims.jti != job_id:
        raise EnvelopeRefused("stood under another job's id", code="moved")
    if claims.lane not in lanes:
        raise EnvelopeRefused("for a lane that is not served here", code="lane")
    audiences = frozenset({naming.host_audience(host), *map(naming.lane_audience, lanes)})
    kind = VerifiedJob
    try:
        check_job_claims(claims, audiences=audiences, now=now)
    except EnvelopeRefused as error:
        if error.code != "expired":  # the last that is checked
            raise
        kind = ExpiredJob
    return kind(claims, opened.kid, hashlib.sha256(opened.payload).hexdigest())
