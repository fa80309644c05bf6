"""Messages that start nothing: those that nobody proved to have sent, those that are not for here,
and those that came before. Each is told to whoever may hear of it, and to nobody else.
"""

from __future__ import annotations

from typing import Final

from contracts.delivery import DeliveryCode
from worker.broker.lane_offers import LaneOffers
from worker.delivery import Delivery, Ending
from worker.entry_ports import EntryPorts
from worker.journal.records import JobRecord
from worker.verification import VerifiedJob

# Reasons that are found after the signature and the id: a person who asks for the job is told.
_OF_A_KNOWN_SENDER: Final = frozenset(
    {"lane", "audience", "not_yet_valid", "lifetime", "before_epoch"}
)


class Refusals:
    """What one host answers instead of a start."""

    def __init__(self, ports: EntryPorts, offers: LaneOffers) -> None:
        self._ports = ports
        self._offers = offers

    def bury(self, delivery: Delivery, reason: str) -> Ending:
        """Refuse what nobody proved to have sent, or what may not be asked any more: no answer."""
        ports, job_id = self._ports, delivery.job_id
        if not delivery.is_queued or job_id is None:
            delivery.turn_away(reason)
            return Ending.SETTLED
        left = self._offers.leave_unread(job_id, delivery) if reason == "unknown_key" else None
        if left is not None:
            return left
        if reason in _OF_A_KNOWN_SENDER and ports.journal.find(job_id) is None:
            ports.board.show(job_id, "refused", reason)
        ports.board.bury(delivery.queue_name, job_id, reason)
        delivery.settle()
        ports.say("buried", queue=delivery.queue_name, reason=reason)
        return Ending.SETTLED

    def refuse(self, job: VerifiedJob, delivery: Delivery, note: str) -> Ending:
        """Tell a sender whom we know that his message is not taken here, and why."""
        receipt = self._ports.receipts.of_job(job, DeliveryCode.REFUSED, note=note)
        delivery.answer(DeliveryCode.REFUSED, receipt)
        delivery.settle()
        return Ending.SETTLED

    def repeat(self, earlier: JobRecord, job: VerifiedJob, delivery: Delivery) -> Ending:
        """Answer a message that came before: nothing starts; a result that is there goes out again
        to where its sender looks for it."""
        ports = self._ports
        ports.say("duplicate", job=earlier.jti, state=earlier.state.value)
        if (earlier.iss, earlier.job_sha256) != (job.claims.iss, job.sha256):
            return self.refuse(job, delivery, "another job has this id")
        if delivery.is_queued:
            if ports.journal.note_queued(earlier.jti):
                ports.outbox.wake()  # it came through another door first, and may have ended now
            ports.outbox.publish(earlier)
        receipt = ports.receipts.of_record(earlier, DeliveryCode.DUPLICATE)
        delivery.answer(DeliveryCode.DUPLICATE, receipt)
        delivery.settle()
        return Ending.SETTLED
