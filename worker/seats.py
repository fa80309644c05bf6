"""How many jobs of each sender are in this host's hands, so that none takes more than its share.

Counts in memory alone: after a restart nothing runs. Decides nothing about a job.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Seats:
    """The seats of one listener."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    def take(self, sender: str, most: int | None) -> bool:
        """Take a seat for a job of `sender`, who has `most` of them (None: no limit); say whether
        there was one."""
        with self._lock:
            if most is not None and self._taken[sender] >= most:
                return False
            self._taken[sender] += 1
            return True

    @contextmanager
    def seat(self, sender: str, most: int | None) -> Iterator[bool]:
        """Hold a seat meanwhile, if there was one; see `take`."""
        is_seated = self.take(sender, most)
        try:
            yield is_seated
        finally:
            if is_seated:
                self.give_back(sender)

    def give_back(self, sender: str) -> None:
        """Give one seat of `sender` back."""
        with self._lock:
            self._taken[sender] -= 1
            if not self._taken[sender]:
                del self._taken[sender]
