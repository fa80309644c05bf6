"""From what a sender wants of a job to the signed text: a cancel, or a question. Pure."""

from __future__ import annotations

from typing import Final

from contracts import limits, naming
from contracts.ask import AskClaims, Asked
from contracts.cancel import CancelClaims
from contracts.envelope import ASK_TYPE, CANCEL_TYPE, seal
from contracts.ids import new_job_id
from dispatch.keyring import SenderKeyring
from dispatch.keys import ASK, CANCEL
from dispatch.sent import SentJob

_ASK_LIFE_S: Final = 60  # it is sent at once; the skew between clocks is accepted beside it


def sign_cancel(keyring: SenderKeyring, job: SentJob, why: str, *, now: float) -> str:
    """Return the envelope of our cancel of `job`, which holds as long as any job may live. Raises
    KeysRefused when no key is valid."""
    iat = max(int(now), job.iat)  # a clock that went back makes no cancel older than its job
    claims = CancelClaims(
        iss=keyring.name,
        aud=job.aud,
        jti=job.job_id,
        iat=iat,
        exp=iat + limits.CANCEL_TTL_MAX_S,
        jobSha256=job.sha256,
        why=why,
    )
    return seal(claims.model_dump_json().encode(), CANCEL_TYPE, keyring.signers(CANCEL, job.aud))


def sign_ask(
    keyring: SenderKeyring,
    job_id: str,
    host: str,
    what: Asked,
    *,
    now: float,
    from_seq: int = 0,
) -> tuple[AskClaims, str]:
    """Return a question about one of our jobs to `host`, and its envelope; it may be asked once.
    Raises KeysRefused when no key is valid."""
    claims = AskClaims(
        iss=keyring.name,
        aud=naming.host_audience(host),
        jti=job_id,
        iat=int(now),
        exp=int(now) + _ASK_LIFE_S,
        nonce=new_job_id(),
        what=what,
        fromSeq=from_seq,
    )
    signers = keyring.signers(ASK, claims.aud)
    return claims, seal(claims.model_dump_json().encode(), ASK_TYPE, signers)
