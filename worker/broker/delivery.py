"""A taken queue entry as the entry sees it, and what may become of it."""

from __future__ import annotations

from enum import Enum, auto
from typing import Protocol


class Ending(Enum):
    """What became of a delivery."""

    SETTLED = auto()  # ours and ended, somebody else's, or refused for good
    PASSED_ON = auto()  # given back to the lane, for another host


class Delivery(Protocol):
    """A taken queue entry, as the entry may act on it. All but the properties may raise Redis's
    errors; what is neither settled nor passed on comes again."""

    @property
    def job_id(self) -> str:
        """Return the id under which it stood in Redis."""
        ...

    @property
    def queue_name(self) -> str:
        """Return the queue it came from."""
        ...

    def settle(self) -> None:
        """Forget that it was taken."""
        ...

    def pass_on(self, *, lane: str, ring: bool) -> None:
        """Give it back to the lane's queue; wake the lane's hosts when `ring`."""
        ...
