"""The listener's own collections: one at its start, then every hour, sooner while a disk is full.

Runs in a thread of its own beside the jobs and is of no consequence to them: what fails is said and
tried again. It looks at a bounded number of trees each time, at others the next time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from contracts.clock import Clock
from contracts.errors import FleetError
from worker.announcer import Say
from worker.trees.collector import Collection, TreeCollector

_EVERY_S: Final = 3_600.0
# A full disk refuses every job, so it is asked for each minute; a collection in between makes room
# only if trees have landed meanwhile.
_ASK_EVERY_S: Final = 60.0
_FULL_EVERY_S: Final = 600.0


class PeriodicCollection:
    """Collects until it is told to end."""

    def __init__(
        self,
        collector: TreeCollector,
        clock: Clock,
        say: Say,
        *,
        every_s: float = _EVERY_S,
        ask_every_s: float = _ASK_EVERY_S,
    ) -> None:
        self._collector = collector
        self._clock = clock
        self._say = say
        self._every_s = every_s
        self._ask_every_s = ask_every_s

    def start(self, ended: threading.Event) -> None:
        """Run in a thread of its own, a daemon that nobody waits for: what it leaves half done
        when this process ends is ended by the next collection."""
        threading.Thread(target=self.run, args=(ended,), name="collection", daemon=True).start()

    def run(self, ended: threading.Event) -> None:
        """Collect at once and then again and again, until `ended` is set."""
        while not ended.is_set():
            self.collect_once(ended.is_set)
            last = self._clock.monotonic()
            while not ended.is_set() and not self._is_due(self._clock.monotonic() - last):
                self._clock.wait(ended, self._ask_every_s)

    def collect_once(self, stopped: Callable[[], bool]) -> None:
        """Collect, and say what was done."""
        try:
            done = self._collector.collect(thorough=False, stopped=stopped)
        except Exception as error:  # noqa: BLE001 - the top of a thread: jobs go on without it
            if not stopped():
                why = str(error) if isinstance(error, FleetError) else ""
                self._say("collection_failed", reason=type(error).__name__, why=why)
            return
        self._tell(done)

    def _is_due(self, passed_s: float) -> bool:
        if passed_s >= self._every_s:
            return True
        try:
            return passed_s >= _FULL_EVERY_S and self._collector.is_below_floor()
        except FleetError:
            return False

    def _tell(self, done: Collection) -> None:
        for what, pairs in (
            ("worktree_settled", done.settled),
            ("worktree_removed", done.removed),
            ("worktree_deleted", done.deleted),
            ("worktree_problem", done.problems),
        ):
            for job, why in pairs:
                self._say(what, job=job, why=why)
