"""The sender's own care for its jobs: none is lost in the queue, and every one ends.

A job that was accepted and is in no list, claimed by nobody and without a result is pushed again,
byte for byte, until it is claimed or its time is over; the host's journal makes that harmless. A
lane's job that a host may have started unseen is left alone and said so. A job whose time or whose
sender's patience is over is ended under the sender's own key. Believes nothing that the broker says
of a result; bounded in how much it looks at and how often it pushes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from contracts import limits
from contracts.clock import Clock
from contracts.delivery_code import DeliveryCode
from contracts.errors import AnswerLost, FleetError, InvalidRequest, Problem
from contracts.receipt_code import ReceiptCode
from dispatch.answers import Answers
from dispatch.cancelling import Cancelling, CancelState
from dispatch.endings import (
    ending_of,
    is_claim_unknown,
    is_due,
    is_given_up,
    is_over,
    may_be_due,
    may_push_again,
)
from dispatch.hosts import HostView
from dispatch.known_hosts import known_hosts
from dispatch.outgoing import outgoing
from dispatch.queue import FleetQueue, Place, Pushed, Whereabouts
from dispatch.queue.unsettled import Whereto, find_unsettled
from dispatch.sent import SentJob, SentJobs

SWEEP_MAX: Final = 50  # jobs in one sweep: as many round trips to the broker at the most


class Did(StrEnum):
    """What a sweep did about one job."""

    QUEUED = "queued"
    EXPIRED = "expired"
    ABANDONED = "abandoned"
    CANCELLED = "cancelled"
    CLAIM_UNKNOWN = "claim_unknown"


@dataclass(frozen=True, slots=True)
class Swept:
    """One job that a sweep did something about, or could not."""

    job_id: str
    did: Did


class Sweeper:
    """The care for the jobs of one sender. Every method may raise Unavailable."""

    def __init__(
        self,
        answers: Answers,
        queue: FleetQueue,
        sent: SentJobs,
        clock: Clock,
        cancelling: Cancelling,
    ) -> None:
        self._answers = answers
        self._queue = queue
        self._sent = sent
        self._clock = clock
        self._cancelling = cancelling

    def push_new(self, jobs: Sequence[SentJob], *, is_keyed: bool) -> list[Pushed]:
        """Push jobs that were just recorded with the broker's mark, all or none, and note that the
        broker has them. Those under a key another call may have found and pushed meanwhile: only
        then is there something to look for first."""
        if any(job.url for job in jobs):
            return [self._post(job) for job in jobs]
        leaving = [outgoing(job) for job in jobs]
        pushed = (self._queue.push_all if is_keyed else self._queue.push_fresh)(leaving)
        self._sent.note_pushed([job.job_id for job in jobs], now=self._clock.wall())
        return pushed

    def push_again(self, job: SentJob, *, resend_lane: bool = False) -> Pushed:
        """Push one job of ours again if it is in no list, claimed by nobody and not ended.

        `resend_lane` says that a person takes it upon himself: a lane's job whose claim is unknown
        may have been started by one host and may then be started by another.
        """
        if not job.envelope or self._answers.kept(job) is not None:
            return Pushed.FINISHED
        if self._cancelling.wish(job) is not None:
            return Pushed.ALREADY_THERE  # its sender wants its end
        if job.url:
            return self._post(job)
        hosts = self.hosts()
        where = self.where(job, hosts)
        if not where.is_lost:
            return Pushed.FINISHED if where.place is Place.FINISHED else Pushed.ALREADY_THERE
        is_wanted = resend_lane and not is_over(job, self._clock.wall())
        if is_wanted or self._may_push(job, where):
            return self._push_lost(job, hosts)
        self.tend(job, hosts)  # its time may be over, and then it has an end from here on
        return Pushed.CLAIM_UNKNOWN if self._answers.kept(job) is None else Pushed.FINISHED

    def tend(self, job: SentJob, hosts: Sequence[HostView] | None = None) -> Swept | None:
        """Do what is due about one open job of ours; return what was done, None for nothing."""
        if job.url:
            return self._tend_at_door(job)
        known = self.hosts() if hosts is None else hosts
        where, now = self.where(job, known), self._clock.wall()
        if where.place is Place.FINISHED and self._answers.result(job) is not None:
            return None
        wish = self._cancelling.wish(job)
        if wish is not None:
            told = self._cancelling.press(job, wish, known)
            if told.state is CancelState.CANCELLED:
                return Swept(job.job_id, Did.CANCELLED)
        code = ending_of(job, where, known, now=now)
        if code is not None:
            return self._end(job, code)
        return None if wish is not None else self._push_if_lost(job, where, known)

    def _push_if_lost(
        self, job: SentJob, where: Whereabouts, known: Sequence[HostView]
    ) -> Swept | None:
        if job.pushed_at is None and where.place is Place.ABSENT:
            return None  # its enqueue said no, and whoever asked may have asked elsewhere
        if where.is_lost and self._may_push(job, where):
            if is_due(job, self._clock.wall()) and self._push_lost(job, known) is Pushed.QUEUED:
                return Swept(job.job_id, Did.QUEUED)
            return None
        return Swept(job.job_id, Did.CLAIM_UNKNOWN) if is_claim_unknown(job, where) else None

    def give_up_if_due(self, job: SentJob) -> bool:
        """End a job whose sender's own moment has come, without asking the broker; say whether."""
        if job.give_up_at is None or self._clock.wall() < job.give_up_at:
            return False
        return self._end(job, ReceiptCode.ABANDONED) is not None

    def sweep(self) -> list[Swept]:
        """Tend the open jobs that were not looked at for longest, 50 at most."""
        self._answers.tell_rest(SWEEP_MAX)
        jobs = self._sent.open_jobs(SWEEP_MAX, now=self._clock.wall())
        if not jobs:
            return []
        queued = [job for job in jobs if not job.url]
        done = [self._tend_at_door(job) for job in jobs if job.url]
        hosts = self.hosts() if queued else []
        stirs, now = set(self.unsettled(queued, hosts)), self._clock.wall()
        done += [
            self.tend(job, hosts)
            for job in queued
            if job.job_id in stirs or may_be_due(job, now) or self._cancelling.wish(job)
        ]
        return [item for item in done if item is not None]

    def unsettled(self, jobs: Iterable[SentJob], hosts: Sequence[HostView]) -> list[str]:
        """Return those jobs that have an end at the broker, or that no list holds and nobody
        claims."""
        wanted = [Whereto(job.job_id, job.queue_name, job.target) for job in jobs]
        return find_unsettled(self._queue, wanted, [host.name for host in hosts])

    def where(self, job: SentJob, hosts: Sequence[HostView]) -> Whereabouts:
        """Return where a job of ours is now."""
        where = self._queue.whereabouts(job.job_id, job.queue_name, _takers(job, hosts))
        if job.pushed_at is None and where.place is not Place.ABSENT:
            self._sent.note_pushed([job.job_id], now=self._clock.wall())  # it was, after all
        # A broker may have lost its claims, or hold a copy: the host itself says what it has.
        if where.is_lost or where.place is Place.LISTED:
            holders = [x.name for x in hosts if x.holds(job.job_id) and job.target in ("", x.name)]
            return Whereabouts(Place.CLAIMED, "started", holders[0]) if holders else where
        return where

    def _post(self, job: SentJob) -> Pushed:
        """Hand a job to its host's door, again if need be: the host knows its own."""
        self._sent.note_pushed_again(job.job_id, now=self._clock.wall())
        try:
            claims = self._answers.doors.post(job)
        except AnswerLost as error:
            raise AnswerLost(
                f"{error.message}; it may have job {job.job_id}",
                remedy=f"fleet-dispatch wait {job.job_id}; under a new id it is another job",
            ) from error
        self._sent.note_accepted(job.job_id, claims.iss, now=self._clock.wall())
        is_new = claims.code is DeliveryCode.ACCEPTED
        return Pushed.ACCEPTED if is_new else Pushed.ALREADY_THERE

    def _tend_at_door(self, job: SentJob) -> Swept | None:
        """Do what is due about one open job that was sent over HTTP. A host that is away or says no
        stops nothing: the job ends when its time or its sender's patience does."""
        now = self._clock.wall()
        with contextlib.suppress(FleetError):
            if self._answers.result(job) is not None:
                return None
            wish = self._cancelling.wish(job)
            if wish is not None:
                self._cancelling.press(job, wish)
        if is_given_up(job, now):
            return self._end(job, ReceiptCode.ABANDONED)
        never_taken = job.pushed_at is None and is_over(job, now)
        return self._end(job, ReceiptCode.EXPIRED) if never_taken else None

    def _may_push(self, job: SentJob, where: Whereabouts) -> bool:
        # The mark costs a round trip, and a host's own job does not depend on it.
        mark = "" if job.target or job.pushed_at is not None else self._queue.data_mark()
        return may_push_again(job, where, mark, now=self._clock.wall())

    def _push_lost(self, job: SentJob, hosts: Sequence[HostView]) -> Pushed:
        self._sent.note_pushing([job.job_id], self._queue.data_mark())
        self._sent.note_pushed_again(job.job_id, now=self._clock.wall())
        pushed = self._queue.push_again(outgoing(job), _takers(job, hosts))
        self._sent.note_pushed([job.job_id], now=self._clock.wall())
        return pushed

    def _end(self, job: SentJob, code: ReceiptCode) -> Swept | None:
        receipt = self._answers.end(job, code)
        return None if receipt is None else Swept(job.job_id, Did(receipt.code.value))

    def hosts(self) -> list[HostView]:
        """Return every host that there is, as it stands now."""
        return known_hosts(self._answers.keyring, self._queue)


def checked_give_up(seconds: float) -> float:
    """Return `seconds` if a sender may give a job up after so long: 1 s to 30 days, a number.

    Raises InvalidRequest otherwise.
    """
    if (
        isinstance(seconds, bool)
        or not math.isfinite(seconds)
        or not 1 <= seconds <= limits.GIVE_UP_MAX_S
    ):
        raise InvalidRequest(
            [Problem("give-up-after", "is out of range", f"1 to {limits.GIVE_UP_MAX_S} seconds")]
        )
    return float(seconds)


def _takers(job: SentJob, hosts: Sequence[HostView]) -> list[str]:
    """Return who may have taken a job from its queue."""
    return [job.target] if job.target else [host.name for host in hosts]
