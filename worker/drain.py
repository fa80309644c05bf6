"""The orderly end of a listener: what runs may finish, until a second signal or the deadline.

Then every run is asked to stop and to hand in what it has: `failed` with the risk `interrupted`,
its work kept. A run that does not answer to that is ended with all it started. Takes nothing new
and delivers nothing itself.
"""

from __future__ import annotations

import threading
from typing import Final

from contracts.clock import Clock
from worker.announcer import Say
from worker.broker.outbox import Outbox
from worker.runs.runs import STOP_GRACE_S, Runs
from worker.slots import Slots

_LOOK_EVERY_S: Final = 1.0
# After a stop: the run's own grace and evidence, then the whole tree's end.
_STOP_S: Final = STOP_GRACE_S + 15.0
# Threads, heartbeat, last delivery and connections, each with a limit of its own below this.
_CLOSING_S: Final = 60.0


def longest_end_s(drain_timeout_s: int) -> float:
    """Return the seconds from the first signal to the listener's end, at the most.

    A service manager that waits less than this would kill a listener that is still handing in.
    """
    return drain_timeout_s + 2 * _STOP_S + _CLOSING_S


class Drain:
    """The drain of one listener. `hurry` is set by the second signal."""

    def __init__(
        self,
        slots: Slots,
        runs: Runs,
        outbox: Outbox,
        *,
        hurry: threading.Event,
        limit_s: float,
        clock: Clock,
        say: Say,
    ) -> None:
        """`limit_s` is how long running jobs may finish by themselves, on the monotonic clock."""
        self._slots, self._runs, self._outbox = slots, runs, outbox
        self._hurry, self._limit_s = hurry, limit_s
        self._clock, self._say = clock, say

    def run(self) -> None:
        """Return when no job runs any more."""
        running = self._runs.count()
        hint: dict[str, object] = {}
        if running:
            words = f"they may finish for {self._limit_s:g} s; a second signal stops them now"
            hint = {"remedy": words}
        self._say("draining", running=running, **hint)
        why = self._await_jobs()
        if why:
            self._stop_jobs(why)

    def _await_jobs(self) -> str:
        """Return "" when all jobs have ended, else why they may not go on."""
        give_up = self._clock.monotonic() + self._limit_s
        while not self._slots.join(_LOOK_EVERY_S):
            if self._hurry.is_set():
                return "a second signal"
            if self._clock.monotonic() >= give_up:
                return "the drain deadline has passed"
        return ""

    def _stop_jobs(self, why: str) -> None:
        self._say("stopping", running=self._runs.count(), why=why)
        self._runs.stop_all(why)
        if not self._slots.join(_STOP_S):
            self._runs.end_all()
            self._outbox.close()
            self._slots.join(_STOP_S)
