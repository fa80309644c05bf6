"""What is known of how a sent job ended: the verified result, and the sender's own receipt.

The first verified result is kept on this machine. A receipt stands in for a result that did not
come; a result that comes after it is the job's result, and the receipt is shown beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from contracts.clock import Clock
from contracts.errors import KeysRefused, Refused, Unavailable
from contracts.ids import checked_job_id
from dispatch.http.doors import Doors
from dispatch.keyring import SenderKeyring
from dispatch.queue import FleetQueue
from dispatch.sent import SentJob, SentJobs

if TYPE_CHECKING:
    from contracts.receipt_code import ReceiptCode
    from dispatch.receipts import Receipt
    from dispatch.results import JobResult


class Answers:
    """The ends of one sender's jobs."""

    def __init__(
        self,
        keyring: SenderKeyring | KeysRefused,
        queue: FleetQueue,
        sent: SentJobs,
        clock: Clock,
        *,
        doors: Doors | None = None,
    ) -> None:
        """`doors` are the hosts' own doors that this sender knows."""
        # A machine without a sender's identity can still look: its refusal is kept for later.
        self._ring = keyring
        self._queue = queue
        self._sent = sent
        self._clock = clock
        self.doors = doors or Doors(keyring, {}, clock)

    @property
    def keyring(self) -> SenderKeyring:
        """Return the ring. Raises KeysRefused where there is no sender."""
        if isinstance(self._ring, KeysRefused):
            raise self._ring
        return self._ring

    def sent_job(self, job_id: str) -> SentJob:
        """Return our record of a job. Raises InvalidRequest, KeysRefused, and Refused
        (`unknown_job`) for one that this sender did not send from here."""
        _ = self.keyring
        sent = self._sent.find(checked_job_id(job_id))
        if sent is None:
            raise Refused(
                f"this sender has no record of job {job_id}, so no result of it can be checked",
                code="unknown_job",
                remedy="ask on the machine that sent it",
            )
        return sent

    def result(self, sent: SentJob) -> JobResult | None:
        """Return the verified result or what our receipt stands for, None when there is neither.

        What is kept here answers even when the broker is away; else Unavailable is raised.
        """
        if sent.url:
            return self.result_at_door(sent)
        try:
            stored = self._queue.result_texts(sent.job_id)
            told = self._queue.receipt_text(sent.job_id)
        except Unavailable:
            kept = self.kept(sent)
            if kept is None:
                raise
            return kept
        return self.choose(sent, stored, told)

    def result_at_door(self, sent: SentJob, wait_s: float = 0.0) -> JobResult | None:
        """Return the result of a job that was sent over HTTP; what is kept here answers when its
        host does not. Waits at the host for one that is not there yet."""
        if self.has_result(sent):
            return self.kept(sent)
        try:
            text = self.doors.result_text(sent, wait_s)
        except (Unavailable, Refused):
            kept = self.kept(sent)
            if kept is None:
                raise
            return kept
        return self.choose(sent, [] if text is None else [text])

    def kept(self, sent: SentJob) -> JobResult | None:
        """Return what this machine holds, without asking the broker."""
        return self.choose(sent, [])

    def has_result(self, sent: SentJob) -> bool:
        """Say whether a host's verified result is kept here."""
        return self._sent.kept_result(sent.job_id) is not None

    def choose(self, sent: SentJob, stored: Sequence[str], told: str = "") -> JobResult | None:
        """Return the result among what the broker has stored and what is kept here.

        `told` is the broker's receipt. Nothing of either counts unless its signature holds.
        """
        receipt = self._receipt(sent, told)
        found = self._real(sent, stored)
        if found is None:
            return None if receipt is None else _stand_in(receipt, sent)
        return replace(found, receipt=receipt)

    def end(self, sent: SentJob, code: ReceiptCode) -> Receipt | None:
        """End a job of ours ourselves; return the receipt that holds, None when a result does.

        It is on disk when this returns; the broker is told as soon as it can be reached.
        """
        from dispatch.receipts import first_receipt, sign_receipt

        text = sign_receipt(self.keyring, sent, code, now=self._clock.wall())
        kept = self._sent.receipts.keep(sent.job_id, text)
        if kept is None:
            return None
        receipt = first_receipt([kept], self.keyring, sent)
        if receipt is not None:
            self.tell(sent, receipt)
        return receipt

    def tell(self, sent: SentJob, receipt: Receipt) -> None:
        """Put a receipt where other readers find it; a broker that is away is told later."""
        if sent.url:  # nobody looks for it at a broker
            self._sent.receipts.note_told(sent.job_id)
            return
        try:
            self._queue.store_receipt(
                sent.job_id, sent.queue_name, receipt.envelope, receipt.code.value
            )
        except Unavailable:
            return
        self._sent.receipts.note_told(sent.job_id)

    def tell_rest(self, limit: int) -> None:
        """Tell the broker of at most `limit` receipts that it does not have yet."""
        for job_id in self._sent.receipts.untold(limit):
            sent = self.sent_job(job_id)
            receipt = self._receipt(sent, "")
            if receipt is not None:
                self.tell(sent, receipt)

    def _real(self, sent: SentJob, stored: Sequence[str]) -> JobResult | None:
        keyring, kept = self.keyring, self._sent.kept_result(sent.job_id)
        if kept is None and not stored:
            return None  # the usual case, without the models of a result
        from dispatch.results import choose_result

        found = choose_result([*([kept] if kept else []), *stored], keyring, sent)
        if found is None or kept is not None:
            return found
        first = self._sent.keep_result(sent.job_id, found.envelope)
        return choose_result([first, *stored], keyring, sent)

    def _receipt(self, sent: SentJob, told: str) -> Receipt | None:
        kept = self._sent.receipts.kept(sent.job_id)
        texts = [text for text in (kept, told) if text]
        if not texts:
            return None
        from dispatch.receipts import first_receipt

        return first_receipt(texts, self.keyring, sent)


def _stand_in(receipt: Receipt, sent: SentJob) -> JobResult:
    from dispatch.receipts import receipt_result
    from dispatch.results import JobResult, told_text

    outer, outcome = receipt_result(receipt, sent)
    return JobResult(
        job_id=sent.job_id,
        host="",
        dispatch=outer,
        outcome=outcome,
        text=told_text(outer),
        envelope=receipt.envelope,
        receipt=receipt,
    )
