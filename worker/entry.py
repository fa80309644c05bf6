"""The one entry: what happens to a text that came through a door, in this order and no other.

Verify, lane claim, journal claim, admission and policy, run, result. Before the signature holds
nothing is believed and nothing is answered; after the journal's claim the job reaches exactly one
result, whatever fails. Composes its ports and owns none of their rules.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from redis.exceptions import RedisError

from contracts.delivery import DeliveryCode
from contracts.errors import (
    CouldNotCheck,
    EnvelopeRefused,
    InvalidRequest,
    Unavailable,
)
from worker.broker.lane_offers import LaneOffers
from worker.delivery import Delivery, Ending
from worker.entry_ports import EntryPorts
from worker.execution import Execution
from worker.journal.records import JobRecord
from worker.journal.schema import JobState
from worker.new_job import new_job
from worker.refusals import Refusals
from worker.runs.outcome import expired_job, was_declined
from worker.verification import ExpiredJob, VerifiedJob, verify_job


class RunEnvelope:
    """The entry object of one listener; called from several threads."""

    def __init__(self, ports: EntryPorts) -> None:
        self._ports = ports
        self._offers = LaneOffers(ports)
        self._execution = Execution(ports)
        self._refusals = Refusals(ports, self._offers)

    def __call__(self, text: str, delivery: Delivery) -> Ending:
        """Do what the envelope `text` asks for, if it may be asked; return when it has ended.

        Raises Unavailable, CouldNotCheck or Redis's errors while the job is not claimed yet, or
        could not be given back: then the delivery is still taken and comes again.
        """
        job = self.verified(text, delivery)
        return Ending.SETTLED if job is None else self.take(job, delivery)

    def verified(self, text: str | bytes, delivery: Delivery) -> VerifiedJob | None:
        """Return the job in `text`; None when it was refused, which it then is for good."""
        ports = self._ports
        try:
            return verify_job(
                text,
                job_id=delivery.job_id,
                keys=ports.keyring,
                host=ports.settings.host,
                lanes=ports.settings.lanes,
                now=ports.clock.wall(),
            )
        except EnvelopeRefused as error:
            self._refusals.bury(delivery, error.code)
        except InvalidRequest:
            self._refusals.bury(delivery, "malformed")
        return None

    def take(self, job: VerifiedJob, delivery: Delivery) -> Ending:
        """Do what a verified job asks for; see `__call__`."""
        expired = isinstance(job, ExpiredJob)
        return self._expire(job, delivery) if expired else self._take(job, delivery)

    def is_known(self, job: VerifiedJob, delivery: Delivery) -> bool:
        """Say whether this host has the job already, and answer it as a duplicate then: that needs
        no free slot."""
        earlier = self._ports.journal.find(job.claims.jti)
        if earlier is None or earlier.state is JobState.REFUSED:
            return False
        self._refusals.repeat(earlier, job, delivery)
        return True

    def give_up(self, job_id: str, why: str) -> None:
        """End a job of ours that our own mistake broke off, if it has no end yet."""
        record = self._ports.journal.find(job_id)
        if record is not None and record.state is not JobState.REFUSED:
            self._ports.outbox.conclude(
                job_id, self._execution.lost(record, "listener_failed", why)
            )

    def _take(self, job: VerifiedJob, delivery: Delivery) -> Ending:
        ports, claims = self._ports, job.claims
        earlier = ports.journal.find(claims.jti)
        if earlier is not None and earlier.state is not JobState.REFUSED:
            return self._refusals.repeat(earlier, job, delivery)
        rights = ports.policy.current().of(claims.iss)[1]
        with ports.seats.seat(claims.iss, rights.concurrency) as is_seated:
            if is_seated:
                return self._take_seated(job, earlier, delivery)
        return self._offers.wait(job, delivery)

    def _take_seated(
        self, job: VerifiedJob, earlier: JobRecord | None, delivery: Delivery
    ) -> Ending:
        ports, claims = self._ports, job.claims
        holder = self._lane_claim(job, delivery)
        if holder is not None:
            ports.say("claimed_elsewhere", job=claims.jti, by=holder)
            return self._refusals.refuse(job, delivery, f"host {holder} has claimed it")
        if earlier is not None:
            return self._declined_before(earlier, job, delivery)
        ports.crash.reach("before_claim")
        try:
            earlier = self._claim(job, delivery)
        except EnvelopeRefused as error:
            self._give_claim_back(job, delivery)
            return self._refusals.bury(delivery, error.code)
        except (Unavailable, CouldNotCheck) as error:
            if job.is_for_a_lane and delivery.is_queued:
                return self._offers.leave(job, delivery, error)
            self._give_claim_back(job, delivery)
            raise
        if earlier is not None:
            return self._refusals.repeat(earlier, job, delivery)
        return self._perform(job, delivery)

    def _expire(self, job: VerifiedJob, delivery: Delivery) -> Ending:
        """End a job whose time is over as that, once: nothing of it runs, its sender is told."""
        ports, claims = self._ports, job.claims
        earlier = ports.journal.find(claims.jti)
        if earlier is not None and (earlier.result or earlier.state is not JobState.REFUSED):
            return self._refusals.repeat(earlier, job, delivery)
        if not delivery.is_queued:  # its sender hears it now, and ends the job himself
            ports.say("expired", job=claims.jti, sender=claims.iss)
            return self._refusals.refuse(job, delivery, "its time is over")
        # One that ran elsewhere is told by its result for seven days: longer than any job lives.
        if ports.outbox.is_stored(claims.jti) or ports.lanes.claim(claims.jti, exp=claims.exp):
            delivery.settle()
            return Ending.SETTLED
        try:
            started = None if earlier else self._claim(job, delivery)
        except EnvelopeRefused as error:
            ports.lanes.release(claims.jti)
            return self._refusals.bury(delivery, error.code)
        if started is not None:  # a copy of it that came in time, meanwhile
            return self._refusals.repeat(started, job, delivery)
        if earlier is not None:
            ports.journal.adopt(earlier)
        ports.say("expired", job=claims.jti, sender=claims.iss)
        host = ports.settings.host
        ports.outbox.conclude(claims.jti, expired_job(claims.payload, job_id=claims.jti, host=host))
        self._tell(delivery.settle)
        return Ending.SETTLED

    def _lane_claim(self, job: VerifiedJob, delivery: Delivery) -> str | None:
        """Claim a job at the broker; return None when it is ours, else who has it. One that is for
        this host alone and did not come from there needs no broker."""
        if not delivery.is_queued and not job.is_for_a_lane:
            return None
        job_id, exp, ports = job.claims.jti, job.claims.exp, self._ports
        if not delivery.is_queued:
            return ports.lanes.claim(job_id, exp=exp)
        return ports.lanes.take(job_id, exp=exp, look_for_cancel=ports.look_for_cancel)

    def _give_claim_back(self, job: VerifiedJob, delivery: Delivery) -> None:
        if delivery.is_queued or job.is_for_a_lane:
            self._ports.lanes.release(job.claims.jti)

    def _claim(self, job: VerifiedJob, delivery: Delivery) -> JobRecord | None:
        """Claim a job. One that is for this host alone is claimed from the reserve when the disk is
        full, to end as that; one of the lane is for the others then."""
        new = new_job(job, self._ports.settings, door=delivery.queue_name)
        claim = partial(self._ports.journal.claim, new)
        is_shared = job.is_for_a_lane and delivery.is_queued
        return claim() if is_shared else self._ports.reserve.lend(claim)

    def _declined_before(self, earlier: JobRecord, job: VerifiedJob, delivery: Delivery) -> Ending:
        if earlier.result is None and job.is_for_a_lane and delivery.is_queued:
            # An earlier listener of this host may have declined it.
            self._ports.journal.adopt(earlier)
            taken_back = self._execution.taken_back(job)
            if taken_back is not None:
                self._ports.outbox.conclude(job.claims.jti, taken_back)
                delivery.settle()
                return Ending.SETTLED
            return self._offers.offer(job, delivery, ring=False)
        return self._refusals.repeat(earlier, job, delivery)

    def _perform(self, job: VerifiedJob, delivery: Delivery) -> Ending:
        ports, claims = self._ports, job.claims
        ports.crash.reach("after_claim")
        ports.say("claimed", job=claims.jti, sender=claims.iss, aud=claims.aud, lane=claims.lane)
        is_shared = job.is_for_a_lane and delivery.is_queued
        settled = self._accept(job, delivery, settle=not is_shared)
        result = self._execution.result_of(job)
        ports.crash.reach("after_run")
        if is_shared and was_declined(result):
            return self._offers.decline(job, result, delivery)
        ports.outbox.conclude(claims.jti, result)
        if not settled:
            self._tell(delivery.settle)
        return Ending.SETTLED

    def _accept(self, job: VerifiedJob, delivery: Delivery, *, settle: bool) -> bool:
        """Tell that the job is claimed where it came from: its sender, or whoever looks. With
        `settle`, say whether nobody holds it as taken any more."""
        ports, job_id = self._ports, job.claims.jti
        if not delivery.is_queued:
            state = JobState.CLAIMED.value
            receipt = ports.receipts.of_job(job, DeliveryCode.ACCEPTED, state=state)
            delivery.answer(DeliveryCode.ACCEPTED, receipt)
            return True
        try:
            return ports.board.show_started(job_id, delivery.taken_list, settle=settle)
        except RedisError:  # only for show, or it comes again: a broker that is away stops no run
            return False

    def _tell(self, act: Callable[[], None]) -> None:
        """Do what is only for show or comes again by itself; a broker that is away stops no run."""
        try:
            act()
        except (RedisError, Unavailable, CouldNotCheck):
            return
