"""What a sender orders and asks about its own jobs: verified, held against the journal, done.

Both doors come here, with a text that anybody may have sent. Only the sender of a job may end it or
read of it; a cancel is on disk before anything is done about it, and one of a job that is not here
yet keeps it from ever starting here. Signs nothing and opens no connection.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from contracts import naming
from contracts.ask import AskClaims
from contracts.cancel import CancelClaims, check_cancel_claims, read_cancel_claims
from contracts.clock import Clock
from contracts.delivery import DeliveryCode
from contracts.envelope import CANCEL_TYPE, open_envelope
from contracts.errors import EnvelopeRefused
from dispatch.keyring import HostKeyring
from dispatch.keys import CANCEL, parse_key_id
from worker.announcer import Say
from worker.asks import TEXT_MAX_BYTES, Asks
from worker.crash_points import UNARMED, CrashPoints
from worker.journal.cancels import Cancel
from worker.journal.journal import Journal
from worker.journal.records import JobRecord
from worker.journal.schema import JobState
from worker.receipts import Receipts
from worker.runs.runs import Runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What this host says to an order or a question: the parts of a signed `delivery` receipt.

    `result` is the job's signed result where one was asked for and is there. `asked` are the claims
    of a question, None for an order.
    """

    sender: str
    job_id: str
    job_sha256: str
    code: DeliveryCode
    kid: str  # that signed what is answered: the answer is signed by the same generation
    state: str = ""
    note: str = ""
    nonce: str = ""
    asked: AskClaims | None = None
    result: str | None = field(default=None, repr=False)

    def sealed_by(self, receipts: Receipts) -> str | None:
        """Return this as our signed word, None when we have no key for that."""
        return receipts.seal(
            self.sender,
            self.job_id,
            self.job_sha256,
            self.code,
            kid=self.kid,
            state=self.state,
            note=self.note,
            nonce=self.nonce,
        )


class Control:
    """The control of one host. Every call may raise the journal's errors."""

    def __init__(
        self,
        keyring: HostKeyring,
        asks: Asks,
        journal: Journal,
        runs: Runs,
        *,
        lanes: Collection[str],
        clock: Clock,
        say: Say,
        crash: CrashPoints = UNARMED,
    ) -> None:
        """`lanes` are those that this host serves."""
        self._keyring = keyring
        self._asks = asks
        self._journal = journal
        self._runs = runs
        host = naming.host_audience(keyring.host)
        self._audience = host
        self._audiences = frozenset({host, *map(naming.lane_audience, lanes)})
        self._clock = clock
        self._say = say
        self._crash = crash

    def cancel(self, text: str | bytes, *, job_id: str | None = None) -> Answer:
        """End the job that the cancel in `text` is for, or keep it from starting here.

        Returns as soon as that is on disk and what runs was told to stop; its end comes as the
        job's result. `job_id` is under which id the text stood, where it stood under one. Again is
        once. Raises EnvelopeRefused; its code is for our log alone.
        """
        claims, kid = self._read_cancel(text)
        if job_id is not None and claims.jti != job_id:
            raise EnvelopeRefused("stood under another job's id", code="moved")
        record = self._journal.find(claims.jti)
        _check_own(record, claims)
        if record is not None and record.result is not None:
            return _answer(claims, kid, DeliveryCode.REFUSED, record, "it had ended already")
        order = Cancel(claims.jti, claims.iss, claims.jobSha256, claims.iat, claims.why)
        if self._journal.cancels.keep(order, is_known=record is not None):
            self._say("cancel_taken", job=claims.jti, sender=claims.iss)
        self._crash.reach("after_cancel_taken")
        # Once more: whoever claims looks for the cancel afterwards, and this looks for the claim.
        record = self._journal.find(claims.jti)
        _check_own(record, claims)
        if record is None:
            note = "it is not known here, and will never start here"
            return _answer(claims, kid, DeliveryCode.UNKNOWN, None, note)
        if record.state is not JobState.REFUSED:
            self._runs.cancel(claims.jti)
        return _answer(claims, kid, DeliveryCode.CANCELLING, record, "")

    def ask(self, text: str | bytes) -> Answer:
        """Answer the question in `text`, once.

        A job that is not the sender's own is answered as one that does not exist. Raises
        EnvelopeRefused; its code is for our log alone.
        """
        verified = self._asks.verify(text)
        claims = verified.claims
        record = self._journal.find(claims.jti)
        if record is None or record.iss != claims.iss:
            return Answer(
                sender=claims.iss,
                job_id=claims.jti,
                job_sha256="",
                code=DeliveryCode.UNKNOWN,
                kid=verified.kid,
                nonce=claims.nonce,
                asked=claims,
            )
        return Answer(
            sender=claims.iss,
            job_id=claims.jti,
            job_sha256=record.job_sha256,
            code=DeliveryCode.ACCEPTED,
            kid=verified.kid,
            state=record.state.value,
            nonce=claims.nonce,
            asked=claims,
            result=record.sealed,
        )

    def _read_cancel(self, text: str | bytes) -> tuple[CancelClaims, str]:
        if len(text) > TEXT_MAX_BYTES:
            raise EnvelopeRefused(f"{len(text)} characters", code="too_large")
        opened = open_envelope(text, self._keyring.message_keys(CANCEL), CANCEL_TYPE)
        claims = read_cancel_claims(opened.payload)
        _check_key(opened.kid, claims.iss, claims.aud)
        check_cancel_claims(claims, audiences=self._audiences, now=self._clock.wall())
        return claims, opened.kid


def _check_key(kid: str, iss: str, aud: str) -> None:
    key_id = parse_key_id(kid)
    if key_id is None or (key_id.iss, key_id.purpose, key_id.aud) != (iss, CANCEL, aud):
        raise EnvelopeRefused("signed with a key for something else", code="foreign_key")


def _check_own(record: JobRecord | None, claims: CancelClaims) -> None:
    """Refuse a cancel of a job that another sender, or other bytes, have under that id here."""
    if record is None:
        return
    own = (record.iss, record.aud, record.job_sha256)
    if own != (claims.iss, claims.aud, claims.jobSha256):
        raise EnvelopeRefused("not a job of that sender", code="foreign_job")


def _answer(
    claims: CancelClaims, kid: str, code: DeliveryCode, record: JobRecord | None, note: str
) -> Answer:
    return Answer(
        sender=claims.iss,
        job_id=claims.jti,
        job_sha256=claims.jobSha256,
        code=code,
        kid=kid,
        state="" if record is None else record.state.value,
        note=note,
    )
