"""The signed words of this host about messages: what it accepted, had already, or will not do.

Signs with the host's key for that one purpose and for the one sender. Writes nothing.
"""

from __future__ import annotations

from typing import Final

from contracts.clock import Clock
from contracts.delivery import DeliveryCode, delivery_claims
from contracts.envelope import DELIVERY_TYPE, seal
from contracts.errors import KeysRefused
from dispatch.keyring import HostKeyring
from dispatch.keys import DELIVERY
from worker.announcer import Say
from worker.journal.records import JobRecord
from worker.verification import VerifiedJob

NO_KEY: Final = "receipt_cannot_be_signed"


class Receipts:
    """The receipts of one host."""

    def __init__(self, keyring: HostKeyring, clock: Clock, say: Say) -> None:
        self._keyring = keyring
        self._clock = clock
        self._say = say

    def of_job(
        self, job: VerifiedJob, code: DeliveryCode, *, state: str = "", note: str = ""
    ) -> str | None:
        """Return our signed word about a verified job, None when we have no key for it."""
        claims = job.claims
        return self.seal(
            claims.iss, claims.jti, job.sha256, code, kid=job.kid, state=state, note=note
        )

    def of_record(
        self, record: JobRecord, code: DeliveryCode, *, note: str = "", nonce: str = ""
    ) -> str | None:
        """Return our signed word about a job in our journal, None when we have no key for it."""
        return self.seal(
            record.iss,
            record.jti,
            record.job_sha256,
            code,
            kid=record.facts.get("kid"),
            state=record.state.value,
            note=note,
            nonce=nonce,
        )

    def seal(
        self,
        sender: str,
        job_id: str,
        job_sha256: str,
        code: DeliveryCode,
        *,
        kid: str | None,
        state: str = "",
        note: str = "",
        nonce: str = "",
    ) -> str | None:
        """Return the envelope of a receipt for `sender`, answered with the generation of the key
        `kid` where one is named; None, and it is said, when we hold no key for that."""
        try:
            signer = self._keyring.host_signer(DELIVERY, sender, job_kid=kid)
        except KeysRefused as error:
            self._say(NO_KEY, job=job_id, reason=error.message)
            return None
        claims = delivery_claims(
            host=self._keyring.host,
            sender=sender,
            job_id=job_id,
            job_sha256=job_sha256,
            code=code,
            now=self._clock.wall(),
            state=state,
            note=note,
            nonce=nonce,
        )
        return seal(claims.model_dump_json().encode("utf-8"), DELIVERY_TYPE, [signer])
