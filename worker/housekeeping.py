"""What a listener does now and then: forget old jobs, and remove the folders that they left."""

from __future__ import annotations

import threading
from typing import Final

from contracts.clock import Clock
from contracts.errors import CouldNotCheck, Unavailable
from worker.announcer import Say
from worker.journal.journal import Journal
from worker.runs.run_folders import RunFolders

_EVERY_S: Final = 3_600.0  # what is kept for seven days may be kept an hour longer


class Housekeeping:
    """The housekeeping of one listener."""

    def __init__(self, journal: Journal, folders: RunFolders, clock: Clock, say: Say) -> None:
        self._journal = journal
        self._folders = folders
        self._clock = clock
        self._say = say

    def tidy(self, stop: threading.Event | None = None) -> None:
        """Do it once, or until `stop` is set. A journal that cannot be written now is no reason to
        fail."""
        is_over = _never if stop is None else stop.is_set
        try:
            forgotten, removed = self._journal.prune(is_over), self._folders.tidy(is_over)
        except (Unavailable, CouldNotCheck) as error:
            self._say("not_tidied", reason=error.message)
            return
        if forgotten or removed:
            self._say("tidied", jobs=forgotten, folders=removed)

    def run(self, stop: threading.Event) -> None:
        """Do it every hour until `stop` is set."""
        while not self._clock.wait(stop, _EVERY_S):
            self.tidy(stop)


def _never() -> bool:
    return False
