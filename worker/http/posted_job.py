"""One job that was posted, as the entry sees it: it hears one answer, and comes from no broker."""

from __future__ import annotations

import threading
from typing import Final

from contracts.delivery import DeliveryCode
from worker.announcer import Say
from worker.journal.records import HTTP_DOOR

# What the peer is told: 202 for what is on disk, 409 for a signed no, 403 for everything unproven.
_STATUS: Final = {
    DeliveryCode.ACCEPTED: 202,
    DeliveryCode.DUPLICATE: 202,
    DeliveryCode.REFUSED: 409,
}
_TURNED_AWAY: Final = 403
_NOT_NOW: Final = 503


class PostedJob:
    """One posted job; see Delivery. Answered once: what is said later changes nothing."""

    job_id = None
    queue_name = HTTP_DOOR
    taken_list = ""
    is_queued = False

    def __init__(self, say: Say) -> None:
        self._say = say
        self._answered = threading.Event()
        self._lock = threading.Lock()
        self.status = _NOT_NOW
        self.receipt: str | None = None

    def answer(self, code: DeliveryCode, receipt: str | None) -> None:
        """See Delivery.answer."""
        self._set(_STATUS[code], receipt)

    def turn_away(self, reason: str) -> None:
        """See Delivery.turn_away."""
        self._say("turned_away", door=HTTP_DOOR, reason=reason)
        self._set(_TURNED_AWAY, None)

    def put_off(self) -> None:
        """Answer that nothing was taken and the same message may come again."""
        self._set(_NOT_NOW, None)

    @property
    def is_accepted(self) -> bool:
        """Say whether the job was claimed by this message."""
        return self._answered.is_set() and self.status == _STATUS[DeliveryCode.ACCEPTED]

    def wait(self, seconds: float) -> None:
        """Return when it was answered; after `seconds` the answer is that it may come again, which
        a claim that is committed later makes a duplicate."""
        if not self._answered.wait(seconds):
            self.put_off()

    def settle(self) -> None:
        """Nothing of it stands anywhere. See Delivery.settle."""

    def pass_on(self, *, lane: str, ring: bool) -> None:
        """Never asked for: there is no lane to give it back to. See Delivery.pass_on."""

    def put_back(self) -> None:
        """Never asked for: it came from no queue. See Delivery.put_back."""

    def _set(self, status: int, receipt: str | None) -> None:
        with self._lock:
            if not self._answered.is_set():
                self.status, self.receipt = status, receipt
                self._answered.set()
