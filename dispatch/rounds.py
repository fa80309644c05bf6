"""What says which of many waited jobs are to be looked at, at a cost that does not grow with them.

A round asks the broker for its hosts and its mark, and with one script for each queue what has an
end or is in nobody's hands. All jobs are looked at where something changed that they depend on: a
host fell silent or came back, the broker lost its data, the time of a job is over; and twice a
minute, for what shows in none of that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from contracts.clock import Clock
from contracts.errors import FleetError, Unavailable
from dispatch.endings import is_over
from dispatch.hosts import HostView
from dispatch.queue import FleetQueue
from dispatch.sent import SentJob
from dispatch.sweeper import Sweeper

LOOK_EVERY_S: Final = 30.0


class Round(NamedTuple):
    """The jobs that are due, and the hosts at that moment (None where they cannot be told).
    `is_whole` says that something concerns all of them."""

    due: list[str]
    hosts: Sequence[HostView] | None
    is_whole: bool


class Rounds:
    """The rounds of one wait for several jobs. Not safe from threads."""

    def __init__(self, sweeper: Sweeper, queue: FleetQueue, clock: Clock) -> None:
        self._sweeper = sweeper
        self._queue = queue
        self._clock = clock
        self._seen: tuple[object, ...] | None = None
        self._whole_at = 0.0

    @property
    def has_begun(self) -> bool:
        """Say whether there was a whole round already."""
        return self._seen is not None

    def forget(self) -> None:
        """Let the next round be a whole one."""
        self._whole_at = 0.0

    def look(self, jobs: Mapping[str, SentJob], *, is_new: bool) -> Round:
        """Return which of `jobs` are due now. `is_new`: announcements may have been missed.

        Raises Unavailable when the broker is away.
        """
        hosts = self._hosts()
        wall, now = self._clock.wall(), self._clock.monotonic()
        over = frozenset(job_id for job_id, job in jobs.items() if _is_ending(job, wall))
        signs = (self._mark(), over, None if hosts is None else tuple(map(_sign, hosts)))
        if is_new or signs != self._seen or now >= self._whole_at:
            self._seen, self._whole_at = signs, now + LOOK_EVERY_S
            return Round(list(jobs), hosts, is_whole=True)
        return Round(self._unsettled(jobs, hosts or ()), hosts, is_whole=False)

    def _hosts(self) -> list[HostView] | None:
        try:
            return self._sweeper.hosts()
        except Unavailable:
            raise
        except FleetError:
            return None  # an end needs no hosts to be found

    def _mark(self) -> str:
        """Return the mark of the broker's data, "" when it has no room for one: it answered just
        now, and what stands there can be read."""
        try:
            return self._queue.data_mark()
        except FleetError:
            return ""

    def _unsettled(self, jobs: Mapping[str, SentJob], hosts: Sequence[HostView]) -> list[str]:
        try:
            return self._sweeper.unsettled(jobs.values(), hosts)
        except Unavailable:
            raise
        except FleetError:
            return []  # a broker that runs no script: twice a minute all are looked at


def _is_ending(job: SentJob, wall: float) -> bool:
    return is_over(job, wall) or (job.give_up_at is not None and wall >= job.give_up_at)


def _sign(host: HostView) -> tuple[object, ...]:
    lanes = () if host.beat is None else host.beat.lanes
    return host.name, host.state, lanes, host.stopped_at
