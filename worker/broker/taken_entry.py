"""One taken queue entry: what the entry of the listener may do with it, on the queue it came from.

Holds no state of its own and decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from contracts import naming
from contracts.delivery import DeliveryCode
from worker.broker.left_receipts import leave_receipt
from worker.sealed import SealedWorker


@dataclass(frozen=True, slots=True)
class TakenEntry:
    """One taken queue entry; see Delivery."""

    worker: SealedWorker
    job_id: str
    is_queued: bool = True

    @property
    def queue_name(self) -> str:
        """See Delivery.queue_name."""
        return self.worker.queue_name

    @property
    def taken_list(self) -> str:
        """See Delivery.taken_list."""
        return self.worker.taken_key

    def answer(self, code: DeliveryCode, receipt: str | None) -> None:
        """Leave the receipt at the broker. See Delivery.answer.

        That a job was accepted is shown by its claim and told by its result: only the other words
        are left, so that an ordinary job costs nothing more.
        """
        if receipt is not None and code is not DeliveryCode.ACCEPTED:
            leave_receipt(self.worker.connection, self.job_id, receipt)

    def turn_away(self, reason: str) -> None:
        """Tell nobody: whoever wrote it to Redis reads no answer. See Delivery.turn_away."""

    def settle(self) -> None:
        """See Delivery.settle."""
        self.worker.settle(self.job_id)

    def pass_on(self, *, lane: str, ring: bool) -> None:
        """See Delivery.pass_on."""
        queue = naming.lane_queue(lane)
        self.worker.give_back(self.job_id, to=queue)
        if ring:
            self.worker.connection.publish(naming.bell_channel(queue), b"1")

    def put_back(self) -> None:
        """See Delivery.put_back."""
        self.worker.give_back(self.job_id)
