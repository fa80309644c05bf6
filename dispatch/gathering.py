"""Waiting for many jobs at once: one connection hears of all their ends.

A job that is announced is looked at, and no other. Every few seconds one look at the hosts and at
the broker's mark says whether anything changed that jobs depend on: a host fell silent or came
back, the broker lost its data, the time of a job is over. Only then, and twice a minute for what
nobody announced, each job that is still open is looked at and seen to. What a job costs does not
grow with how many there are.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from contracts.clock import Clock
from contracts.errors import FleetError, Unavailable
from dispatch.answers import Answers
from dispatch.endings import is_over
from dispatch.hosts import HostView
from dispatch.queue import FleetQueue
from dispatch.queue.done_bells import DoneBells
from dispatch.queue.result_store import RECHECK_S
from dispatch.sent import SentJob
from dispatch.sweeper import Sweeper

# A job that was lost without a trace, and an end that nobody announced, are found within this.
LOOK_EVERY_S: Final = 30.0
_RETRY_PAUSE_S: Final = 1.0

_Signs = tuple[object, ...]


class Gathering:
    """One wait for several jobs that went over the queue."""

    def __init__(
        self,
        jobs: Mapping[str, SentJob],
        answers: Answers,
        sweeper: Sweeper,
        queue: FleetQueue,
        clock: Clock,
    ) -> None:
        self._open = dict(jobs)
        self._answers = answers
        self._sweeper = sweeper
        self._queue = queue
        self._clock = clock
        self._seen: _Signs | None = None
        self._look_at = 0.0

    def run(
        self, timeout_s: float | None, on_look: Callable[[], None], on_tick: Callable[[], None]
    ) -> None:
        """Return when each of the jobs has an end that is kept here, or the time is over.

        `on_look` is called after each look at all, `on_tick` every 3 s. Returns at once when the
        broker is away at the start; one that goes away meanwhile is waited for.
        """
        give_up = None if timeout_s is None else self._clock.monotonic() + timeout_s
        with DoneBells(self._queue, self._open) as bells:
            while self._open:
                left = RECHECK_S if give_up is None else give_up - self._clock.monotonic()
                if left <= 0:
                    return
                on_tick()
                try:
                    if self._is_look_due(bells):
                        on_look()
                    self._hear(bells, min(left, RECHECK_S))
                except Unavailable:
                    if self._seen is None:
                        return
                    self._look_at = 0.0  # what was heard, and not seen to, is heard no more
                    self._drop_given_up()
                    self._clock.wait(threading.Event(), min(left, _RETRY_PAUSE_S))

    def _is_look_due(self, bells: DoneBells) -> bool:
        """Look at all jobs if something says so; say whether that was done."""
        is_new = bells.listen()
        hosts = self._sweeper.hosts()
        wall = self._clock.wall()
        over = sum(is_over(job, wall) for job in self._open.values())
        signs = (self._mark(), over, *map(_sign, hosts))
        now = self._clock.monotonic()
        if not is_new and signs == self._seen and now < self._look_at and not self._drop_given_up():
            return False
        for job_id in list(self._open):
            self._look(job_id, hosts)
        self._seen, self._look_at = signs, now + LOOK_EVERY_S
        return True

    def _mark(self) -> str:
        """Return the mark of the broker's data, "" when it has no room for one: it answered just
        now, and what stands there can be read."""
        try:
            return self._queue.data_mark()
        except Unavailable:
            return ""

    def _hear(self, bells: DoneBells, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while self._open and (left := until - self._clock.monotonic()) > 0:
            for job_id in bells.hear(left):
                if job_id in self._open:
                    self._look(job_id, None)

    def _look(self, job_id: str, hosts: Sequence[HostView] | None) -> None:
        """Take the end of a job in, if it has one; with `hosts` see to it otherwise."""
        try:
            sent = self._answers.sent_job(job_id)
            found = self._answers.result(sent)
            if found is None and hosts is not None:
                self._sweeper.tend(sent, hosts)
                found = self._answers.kept(sent)
        except Unavailable:
            raise
        except FleetError:
            return  # said when its own turn comes
        if found is not None:
            del self._open[job_id]

    def _drop_given_up(self) -> bool:
        """End what its sender gives up by now, which needs no broker; say whether there was one."""
        ended: list[str] = []
        for job_id, sent in self._open.items():
            with contextlib.suppress(FleetError):
                if self._sweeper.give_up_if_due(sent):
                    ended.append(job_id)
        for job_id in ended:
            del self._open[job_id]
        return bool(ended)


def _sign(host: HostView) -> tuple[object, ...]:
    lanes = () if host.beat is None else host.beat.lanes
    return host.name, host.state, lanes, host.stopped_at
