"""Waiting for one job: until a result is there, or this sender has ended the job itself.

Every look sees to the job as well: what was lost is pushed again, what is over is ended. A silent
host is waited for; nothing here judges silence.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from contracts.clock import Clock
from contracts.errors import FleetError, Unavailable, WaitTimedOut
from dispatch.answers import Answers
from dispatch.gathering import Gathering
from dispatch.hosts import HostView
from dispatch.http.doors import LONG_POLL_S
from dispatch.queue import FleetQueue
from dispatch.rounds import Rounds
from dispatch.sent import SentJob, SentJobs
from dispatch.sweeper import Sweeper, checked_give_up

if TYPE_CHECKING:
    from dispatch.results import JobResult

_RETRY_PAUSE_S: Final = 2.0  # between two knocks at a door where nobody answers


class Waits:
    """The waits of one sender; raises what `FleetClient.wait` and `FleetClient.result` raise."""

    def __init__(
        self, answers: Answers, sweeper: Sweeper, queue: FleetQueue, sent: SentJobs, clock: Clock
    ) -> None:
        self._answers = answers
        self._sweeper = sweeper
        self._queue = queue
        self._sent = sent
        self._clock = clock

    def wait(
        self,
        job_id: str,
        timeout_s: float | None,
        *,
        give_up_after_s: float | None,
        on_look: Callable[[], None] | None,
    ) -> JobResult:
        """Return the result of a job as soon as there is one; see `FleetClient.wait`."""
        found = self.begin(job_id, give_up_after_s)
        if found is not None:
            return found
        sent = self._answers.sent_job(job_id)
        if sent.url:
            return self._wait_at_door(sent, timeout_s, on_look)
        return self._queue.wait_result(
            job_id,
            lambda stored: self._look(sent, stored, on_look),
            timeout_s,
            when_away=lambda: self.given_up(job_id),
        )

    def _wait_at_door(
        self, sent: SentJob, timeout_s: float | None, on_look: Callable[[], None] | None
    ) -> JobResult:
        """Ask the job's host until it has an end; one that is away is waited for. Raises
        WaitTimedOut, or Unavailable when nobody answered at the end."""
        give_up = None if timeout_s is None else self._clock.monotonic() + timeout_s
        away: Unavailable | None = None
        while True:
            left = LONG_POLL_S if give_up is None else give_up - self._clock.monotonic()
            found = self._tended(sent) if sent.pushed_at is None or away is not None else None
            if found is not None:
                return found
            sent = self._answers.sent_job(sent.job_id)
            wanted, asked_at = max(0.0, min(left, LONG_POLL_S)), self._clock.monotonic()
            try:
                result = self._answers.result_at_door(sent, wanted)
                away = None
                if result is not None:
                    return result
            except Unavailable as error:
                away = error
            self._rest(wanted, asked_at)
            given_up = self.given_up(sent.job_id)
            if given_up is not None:
                return given_up
            if give_up is not None and self._clock.monotonic() >= give_up:
                raise away or WaitTimedOut(
                    f"no result of {sent.job_id} within {round(timeout_s or 0.0, 1):g} s",
                    remedy=f"fleet-dispatch wait {sent.job_id}",
                )
            if on_look is not None:
                on_look()

    def _rest(self, wanted: float, asked_at: float) -> None:
        """Let a host be for a moment that is away, or answers at once as too many wait there."""
        rest = min(wanted, _RETRY_PAUSE_S) - (self._clock.monotonic() - asked_at)
        if rest > 0:
            self._clock.wait(threading.Event(), rest)

    def gather(
        self,
        job_ids: Sequence[str],
        timeout_s: float | None,
        *,
        on_look: Callable[[], None],
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        """Wait until each of several jobs has an end, or the time is over, on one connection; then
        `wait` has the end of each, or says why there is none. `begin` comes before."""
        jobs: dict[str, SentJob] = {}
        for job_id in job_ids:
            with contextlib.suppress(FleetError):
                sent = self._answers.sent_job(job_id)
                if not sent.url and self._answers.kept(sent) is None:
                    jobs[job_id] = sent
        if len(jobs) > 1:
            gathering = Gathering(jobs, self._answers, self._sweeper, self._queue, self._clock)
            gathering.run(timeout_s, on_look, on_tick)

    def begin(self, job_id: str, give_up_after_s: float | None) -> JobResult | None:
        """Note when to give up, where that was said, and return what has ended the job already.

        A kept result is returned at once; for a job that this sender ended itself the broker is
        asked for a late result. Raises InvalidRequest for a give-up time out of range.
        """
        if give_up_after_s is not None:
            checked_give_up(give_up_after_s)
        sent = self._answers.sent_job(job_id)
        if self._answers.has_result(sent):
            return self._answers.kept(sent)
        if self._answers.kept(sent) is not None:
            return self._answers.result(sent)
        if give_up_after_s is not None:
            self._sent.set_give_up(job_id, self._clock.wall() + give_up_after_s)
        return None

    def look(self, job_id: str, hosts: Sequence[HostView] | None = None) -> JobResult | None:
        """Return the result of a job, after seeing to it; None when it has no end yet. `hosts` are
        all that there are, where that was asked just now."""
        sent = self._answers.sent_job(job_id)
        return self._answers.result(sent) or self._tended(sent, hosts)

    def sent(self, job_id: str) -> SentJob:
        """Return the record of a job; see `Answers.sent_job`."""
        return self._answers.sent_job(job_id)

    def rounds(self) -> Rounds:
        """Return what says which of many jobs are to be looked at."""
        return Rounds(self._sweeper, self._queue, self._clock)

    def given_up(self, job_id: str) -> JobResult | None:
        """End a job whose give-up time has come, without the broker; None when it has not."""
        sent = self._answers.sent_job(job_id)
        return self._answers.kept(sent) if self._sweeper.give_up_if_due(sent) else None

    def _look(
        self, sent: SentJob, stored: Sequence[str], on_look: Callable[[], None] | None
    ) -> JobResult | None:
        found = self._answers.choose(sent, stored) or self._tended(sent)
        if found is None and on_look is not None:
            on_look()
        return found

    def _tended(self, sent: SentJob, hosts: Sequence[HostView] | None = None) -> JobResult | None:
        """See to a job and return what we ended it with; what cannot be done now comes again."""
        current = self._answers.sent_job(sent.job_id)
        with contextlib.suppress(FleetError):
            if not self._sweeper.give_up_if_due(current):
                self._sweeper.tend(current, hosts)
        return self._answers.kept(current)
