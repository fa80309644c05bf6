"""Waiting for many jobs at once: one connection hears of all their ends.

A job that is announced is looked at, and no other. Every few seconds a round says which others are
due: those that ended unheard or were lost, and all of them where something changed that jobs depend
on. What concerns one job ends no wait for another. What a job costs does not grow with how many
there are.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from contracts.clock import Clock
from contracts.errors import FleetError, Unavailable
from dispatch.answers import Answers
from dispatch.hosts import HostView
from dispatch.queue import FleetQueue
from dispatch.queue.done_bells import DoneBells
from dispatch.queue.result_store import RECHECK_S
from dispatch.rounds import Rounds
from dispatch.sent import SentJob
from dispatch.sweeper import Sweeper

_RETRY_PAUSE_S: Final = 1.0


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
        self._rounds = Rounds(sweeper, queue, clock)

    def run(
        self, timeout_s: float | None, on_look: Callable[[], None], on_tick: Callable[[], None]
    ) -> None:
        """Return when each of the jobs has an end that is kept here or an error that its own wait
        says, or the time is over.

        `on_look` is called after each look at all, `on_tick` every 3 s. Returns at once when the
        broker is away at the start, or cannot be listened to; one that goes away meanwhile is
        waited for.
        """
        give_up = None if timeout_s is None else self._clock.monotonic() + timeout_s
        with DoneBells(self._queue, self._open) as bells:
            while self._open:
                left = RECHECK_S if give_up is None else give_up - self._clock.monotonic()
                if left <= 0:
                    return
                on_tick()
                try:
                    if self._go_round(bells):
                        on_look()
                    self._hear(bells, min(left, RECHECK_S))
                except Unavailable:
                    if not self._rounds.has_begun:
                        return
                    self._rounds.forget()  # what was heard, and not seen to, is heard no more
                    self._drop_given_up()
                    self._clock.wait(threading.Event(), min(left, _RETRY_PAUSE_S))
                except FleetError:
                    return  # each says it in its own turn

    def _go_round(self, bells: DoneBells) -> bool:
        """Look at the jobs that are due; say whether those were all."""
        found = self._rounds.look(self._open, is_new=bells.listen())
        self._look_at_each(found.due, found.hosts)
        return found.is_whole

    def _hear(self, bells: DoneBells, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while self._open and (left := until - self._clock.monotonic()) > 0:
            self._look_at_each(bells.hear(left), None)

    def _look_at_each(self, job_ids: Sequence[str], hosts: Sequence[HostView] | None) -> None:
        """Take ends in; with `hosts` see to the others. Raises Unavailable when the broker is away,
        and for nothing that is of one job alone."""
        for job_id in job_ids:
            if job_id not in self._open:
                continue
            try:
                is_over = self._has_end(job_id, hosts)
            except Unavailable:
                self._queue.ping()
                continue  # a disk, say: the next round comes to it again
            except FleetError:
                is_over = True  # said in its own turn
            if is_over:
                del self._open[job_id]

    def _has_end(self, job_id: str, hosts: Sequence[HostView] | None) -> bool:
        sent = self._answers.sent_job(job_id)
        if self._answers.result(sent) is not None:
            return True
        if hosts is None:
            return False
        with contextlib.suppress(FleetError):  # what cannot be done now comes again
            self._sweeper.tend(sent, hosts)
        return self._answers.kept(sent) is not None

    def _drop_given_up(self) -> None:
        """End what its sender gives up by now, which needs no broker."""
        for job_id, sent in list(self._open.items()):
            with contextlib.suppress(FleetError):
                if self._sweeper.give_up_if_due(sent):
                    del self._open[job_id]
