"""A sender's own receipts: signing one, reading one back, and the result that it stands for.

Pure, over the keyring and the sender's record. Nothing of a receipt counts unless our own key
signed it for exactly that job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from contracts.dispatch_result import DispatchResult
from contracts.envelope import RECEIPT_TYPE, Verifier, open_envelope, seal
from contracts.errors import EnvelopeRefused, ExitCode
from contracts.plain_result import Outcome, as_kept, is_plain
from contracts.receipt import ReceiptClaims, ReceiptCode, read_receipt_claims
from contracts.run_agent import Risk, RunAgentResult, Status
from dispatch.keyring import SenderKeyring
from dispatch.keys import RECEIPT, parse_key_id
from dispatch.sent import SentJob
from dispatch.times import rfc3339

_SENTENCES: Final = {
    ReceiptCode.ABANDONED: "the sender gave the job up at {at}; what a host did with it is not "
    "known here, and a result that still comes is kept and shown",
    ReceiptCode.CANCELLED: "the sender took the job back at {at}, before any host had it",
    ReceiptCode.EXPIRED: "no host took the job before its time ran out; the sender ended it at "
    "{at}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One verified receipt: why and when (Unix seconds) the sender ended its job."""

    code: ReceiptCode
    at: int
    envelope: str = field(repr=False)

    @property
    def note(self) -> str:
        """Return `abandoned at TIME`, for people."""
        return f"{self.code.value} at {rfc3339(self.at)}"


class _ReceiptKeys:
    """The sender's ring as `open_envelope` asks for receipts."""

    def __init__(self, keyring: SenderKeyring) -> None:
        self._keyring = keyring

    def verifier(self, kid: str) -> Verifier | None:
        """See VerifierLookup."""
        return self._keyring.receipt_verifier(kid)


def sign_receipt(keyring: SenderKeyring, job: SentJob, code: ReceiptCode, *, now: float) -> str:
    """Return the envelope of our receipt for `job`. Raises KeysRefused when no key is valid."""
    claims = ReceiptClaims(
        iss=keyring.name,
        aud=job.aud,
        jti=job.job_id,
        iat=int(now),
        jobSha256=job.sha256,
        code=code,
    )
    data = claims.model_dump_json().encode("utf-8")
    return seal(data, RECEIPT_TYPE, keyring.receipt_signers(job.aud))


def open_receipt(text: str, keyring: SenderKeyring, job: SentJob) -> Receipt:
    """Return the receipt in the envelope `text` if we signed it for `job`.

    Raises EnvelopeRefused; its code is for this side's log alone.
    """
    opened = open_envelope(text, _ReceiptKeys(keyring), RECEIPT_TYPE)
    claims = read_receipt_claims(opened.payload)
    key_id = parse_key_id(opened.kid)
    signed_for = None if key_id is None else (key_id.iss, key_id.purpose, key_id.aud)
    if signed_for != (keyring.name, RECEIPT, job.aud):
        raise EnvelopeRefused("signed with a key for something else", code="foreign_key")
    said = (claims.iss, claims.aud, claims.jti, claims.jobSha256)
    if said != (keyring.name, job.aud, job.job_id, job.sha256):
        raise EnvelopeRefused("a receipt for another job", code="job")
    return Receipt(code=claims.code, at=claims.iat, envelope=text)


def first_receipt(texts: Sequence[str], keyring: SenderKeyring, job: SentJob) -> Receipt | None:
    """Return the first of `texts` that is our receipt for `job`, None when none is."""
    for text in texts:
        try:
            return open_receipt(text, keyring, job)
        except EnvelopeRefused:
            continue
    return None


def receipt_result(receipt: Receipt, job: SentJob) -> tuple[DispatchResult, Outcome]:
    """Return the `failed` result, outer and inner, that a receipt stands for."""
    sentence = _SENTENCES[receipt.code].format(at=rfc3339(receipt.at))
    run = RunAgentResult(
        status=Status.FAILED,
        summary=f"{sentence[0].upper()}{sentence[1:]}.",
        changed_files=(),
        tests_attempted=(),
        known_risks=(sentence,),
        needs_human_review=True,
        agent=job.agent,
        durationSeconds=0.0,
        worktreePath="",
        jobId=job.job_id,
        mode=job.mode,
        risks=(Risk(code=receipt.code.value, message=sentence),),
    )
    plain = is_plain(job.kind)
    outer = DispatchResult(
        jobId=job.job_id,
        kind=job.kind,
        target=job.aud,
        ok=False,
        exitCode=int(ExitCode.FAILED),
        stdoutTail="" if plain else run.to_json(),
        finishedAt=rfc3339(receipt.at),
        status=run.status if plain else None,
        summary=run.summary if plain else "",
        risks=run.risks if plain else (),
    )
    return outer, as_kept(job.kind, run)
