"""Lines about strangers, so many a minute and no more: whoever knocks at a door must not be able to
fill a disk with our log. What was left out is counted and told."""

from __future__ import annotations

import threading
from typing import Final

from contracts.clock import Clock
from worker.announcer import Say

# What a stranger can cause; everything else is always said.
_OF_STRANGERS: Final = frozenset({"turned_away"})
_WINDOW_S: Final = 60.0
_LINES_MAX: Final = 30


class BoundedSay:
    """Says what strangers cause 30 times a minute at most; see Say."""

    def __init__(self, say: Say, clock: Clock) -> None:
        self._say = say
        self._clock = clock
        self._lock = threading.Lock()
        self._since = clock.monotonic()
        self._lines = 0

    def __call__(self, what: str, **details: object) -> None:
        """See Say."""
        if what in _OF_STRANGERS:
            with self._lock:
                left_out = self._count()
                is_left_out = self._lines > _LINES_MAX
            if left_out:
                self._say("turned_away_more", lines=left_out)
            if is_left_out:
                return
        self._say(what, **details)

    def _count(self) -> int:
        """Count one line; return how many were left out in the minute that has just ended."""
        now, left_out = self._clock.monotonic(), 0
        if now - self._since >= _WINDOW_S:
            left_out = max(0, self._lines - _LINES_MAX)
            self._since, self._lines = now, 0
        self._lines += 1
        return left_out
