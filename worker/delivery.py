"""One message as the entry sees it, whichever door it came through, and what may become of it."""

from __future__ import annotations

from enum import Enum, auto
from typing import Protocol

from contracts.delivery import DeliveryCode


class Ending(Enum):
    """What became of a delivery."""

    SETTLED = auto()  # ours and ended, somebody else's, or refused for good
    PASSED_ON = auto()  # given back: to the lane for another host, or to wait its turn


class Delivery(Protocol):
    """A message that came through a door. All but the properties may raise Redis's errors; what is
    neither settled nor passed on comes again where it stands at the broker, and was not taken where
    it does not."""

    @property
    def job_id(self) -> str | None:
        """Return the id under which it stood; None where the signed text alone says."""
        ...

    @property
    def queue_name(self) -> str:
        """Return the queue, or the door, it came from."""
        ...

    @property
    def taken_list(self) -> str:
        """Return the broker's list in which it stands as taken; "" where it is not queued."""
        ...

    @property
    def is_queued(self) -> bool:
        """Say whether it stands at the broker: only then can it be given back to a lane, and only
        then does its sender look for its result there."""
        ...

    def answer(self, code: DeliveryCode, receipt: str | None) -> None:
        """Tell the sender what became of it, by our signed word; None when we have no key for
        that."""
        ...

    def turn_away(self, reason: str) -> None:
        """Tell whoever sent it that it is refused, and nothing more: nobody proved to be its
        sender. `reason` is for our log."""
        ...

    def settle(self) -> None:
        """Forget that it was taken."""
        ...

    def pass_on(self, *, lane: str, ring: bool) -> None:
        """Give it back to the lane's queue; wake the lane's hosts when `ring`."""
        ...

    def put_back(self) -> None:
        """Give one that is queued back to where it came from, behind what waits there already."""
        ...
