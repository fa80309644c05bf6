"""The clock seam. Pure code takes `now`; only loops hold a clock."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks that must not be confused, and a wait that can be interrupted."""

    def wall(self) -> float:
        """Return seconds since the Unix epoch; may jump. For iat, exp and display only."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back. For every timeout and duration."""
        ...

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until `event` is set or `seconds` have passed; say whether it was set."""
        ...


class SystemClock:
    """The machine's clocks."""

    def wall(self) -> float:
        """See Clock.wall."""
        return time.time()

    def monotonic(self) -> float:
        """See Clock.monotonic."""
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """See Clock.wait."""
        return event.wait(seconds)


class ManualClock:
    """A clock that moves only when told: the shipped fake, for tests of pure loops."""

    def __init__(self, wall: float = 1_700_000_000.0, monotonic: float = 1_000.0) -> None:
        self._wall = wall
        self._monotonic = monotonic

    def wall(self) -> float:
        """See Clock.wall."""
        return self._wall

    def monotonic(self) -> float:
        """See Clock.monotonic."""
        return self._monotonic

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Advance both clocks by `seconds` at once, unless `event` is set; say whether it is."""
        if not event.is_set():
            self.advance(max(seconds, 0.0))
        return event.is_set()

    def advance(self, seconds: float) -> None:
        """Move both clocks forward by `seconds`."""
        self._wall += seconds
        self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        """Move the wall clock alone, as a correction of the machine's time does."""
        self._wall += seconds
