"""One deadline that several steps share, on the clock that never goes back."""

from __future__ import annotations

import time


class Deadline:
    """A moment `seconds` from now."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._at = time.monotonic() + seconds

    def left_s(self) -> float:
        """Return the seconds that are left, never less than 0."""
        return max(0.0, self._at - time.monotonic())

    def is_over(self) -> bool:
        """Say whether the moment has passed."""
        return self.left_s() <= 0.0
