"""The one entry: what happens to a text that stood in Redis, in this order and no other.

Verify, lane claim, journal claim, admission and policy, run, result. Before the signature holds
nothing is believed and nothing is answered; after the journal's claim the job reaches exactly one
result, whatever fails. Composes its ports and owns none of their rules.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Final

from redis.exceptions import RedisError

from contracts import limits
from contracts.errors import (
    CouldNotCheck,
    DiskFull,
    EnvelopeRefused,
    InvalidRequest,
    PolicyRefused,
    Unavailable,
)
from contracts.kinds import canonical_kind
from contracts.plain_result import Outcome
from validation.admission import refused_result, unknown_kind
from worker.broker.delivery import Delivery, Ending
from worker.broker.lane_offers import LaneOffers
from worker.entry_ports import EntryPorts
from worker.journal.records import JobRecord, NewJob
from worker.journal.schema import JobState
from worker.kinds.protocol import Task
from worker.repo_map import map_repo
from worker.runs.outcome import expired_job, lost_run, was_declined
from worker.runs.recovery import left_worktree
from worker.runs.runs import RunDied
from worker.settings import HostSettings
from worker.verification import ExpiredJob, VerifiedJob, verify_job

# Reasons that are found after the signature and the id: a person who asks for the job is told.
_OF_A_KNOWN_SENDER: Final = frozenset(
    {"lane", "audience", "not_yet_valid", "lifetime", "before_epoch"}
)


class RunEnvelope:
    """The entry object of one listener; called from several threads."""

    def __init__(self, ports: EntryPorts) -> None:
        self._ports = ports
        self._offers = LaneOffers(ports)

    def __call__(self, text: str, delivery: Delivery) -> Ending:
        """Do what the envelope `text` asks for, if it may be asked; return when it has ended.

        Raises Unavailable, CouldNotCheck or Redis's errors while the job is not claimed yet, or
        could not be given back: then the delivery is still taken and comes again.
        """
        ports = self._ports
        try:
            job = verify_job(
                text,
                job_id=delivery.job_id,
                keys=ports.keyring,
                host=ports.settings.host,
                lanes=ports.settings.lanes,
                now=ports.clock.wall(),
            )
        except EnvelopeRefused as error:
            return self._bury(delivery, error.code)
        except InvalidRequest:
            return self._bury(delivery, "malformed")
        expired = isinstance(job, ExpiredJob)
        return self._expire(job, delivery) if expired else self._take(job, delivery)

    def give_up(self, job_id: str, why: str) -> None:
        """End a job of ours that our own mistake broke off, if it has no end yet."""
        record = self._ports.journal.find(job_id)
        if record is not None and record.state is not JobState.REFUSED:
            self._ports.outbox.conclude(job_id, self._lost(record, "listener_failed", why))

    def _take(self, job: VerifiedJob, delivery: Delivery) -> Ending:
        ports, claims = self._ports, job.claims
        earlier = ports.journal.find(claims.jti)
        if earlier is not None and earlier.state is not JobState.REFUSED:
            return self._again(earlier, delivery)
        holder = ports.lanes.claim(claims.jti, exp=claims.exp)
        if holder is not None:
            delivery.settle()
            ports.say("claimed_elsewhere", job=claims.jti, by=holder)
            return Ending.SETTLED
        if earlier is not None:
            return self._declined_before(earlier, job, delivery)
        ports.crash.reach("before_claim")
        try:
            earlier = self._claim(job)
        except EnvelopeRefused as error:
            ports.lanes.release(claims.jti)
            return self._bury(delivery, error.code)
        except (Unavailable, CouldNotCheck) as error:
            if job.is_for_a_lane:
                return self._offers.leave(job, delivery, error)
            raise
        return self._perform(job, delivery) if earlier is None else self._again(earlier, delivery)

    def _expire(self, job: VerifiedJob, delivery: Delivery) -> Ending:
        """End a job whose time is over as that, once: nothing of it runs, its sender is told."""
        ports, claims = self._ports, job.claims
        earlier = ports.journal.find(claims.jti)
        if earlier is not None and (earlier.result or earlier.state is not JobState.REFUSED):
            return self._again(earlier, delivery)
        # One that ran elsewhere is told by its result for seven days: longer than any job lives.
        if ports.outbox.is_stored(claims.jti) or ports.lanes.claim(claims.jti, exp=claims.exp):
            delivery.settle()
            return Ending.SETTLED
        try:
            started = None if earlier else self._claim(job)
        except EnvelopeRefused as error:
            ports.lanes.release(claims.jti)
            return self._bury(delivery, error.code)
        if started is not None:  # a copy of it that came in time, meanwhile
            return self._again(started, delivery)
        if earlier is not None:
            ports.journal.adopt(earlier)
        ports.say("expired", job=claims.jti, sender=claims.iss)
        host = ports.settings.host
        ports.outbox.conclude(claims.jti, expired_job(claims.payload, job_id=claims.jti, host=host))
        self._tell(delivery.settle)
        return Ending.SETTLED

    def _claim(self, job: VerifiedJob) -> JobRecord | None:
        """Claim a job. One that is for this host alone is claimed from the reserve when the disk is
        full, to end as that; one of the lane is for the others then."""
        new = _new_job(job, self._ports.settings)
        claim = partial(self._ports.journal.claim, new)
        return claim() if job.is_for_a_lane else self._ports.reserve.lend(claim)

    def _declined_before(self, earlier: JobRecord, job: VerifiedJob, delivery: Delivery) -> Ending:
        if earlier.result is None and job.is_for_a_lane:
            self._ports.journal.adopt(
                earlier
            )  # an earlier listener of this host may have declined it
            return self._offers.offer(job, delivery, ring=False)
        return self._again(earlier, delivery)

    def _again(self, earlier: JobRecord, delivery: Delivery) -> Ending:
        """A message that came before: nothing starts; a result that is there goes out again."""
        self._ports.say("duplicate", job=earlier.jti, state=earlier.state.value)
        self._ports.outbox.publish(earlier)
        delivery.settle()
        return Ending.SETTLED

    def _perform(self, job: VerifiedJob, delivery: Delivery) -> Ending:
        ports, claims = self._ports, job.claims
        ports.crash.reach("after_claim")
        ports.say("claimed", job=claims.jti, sender=claims.iss, aud=claims.aud, lane=claims.lane)
        if not job.is_for_a_lane:
            self._tell(delivery.settle)
        self._tell(lambda: ports.board.show(claims.jti, "started"))
        self._tell(lambda: ports.board.show_rq_started(claims.jti, ports.settings.host))
        result = self._result_of(job)
        ports.crash.reach("after_run")
        if job.is_for_a_lane and was_declined(result):
            return self._offers.decline(job, result, delivery)
        ports.outbox.conclude(claims.jti, result)
        self._tell(delivery.settle)
        return Ending.SETTLED

    def _result_of(self, job: VerifiedJob) -> Outcome:
        ports, claims = self._ports, job.claims
        host = ports.settings.host
        if not ports.reserve.hold():
            full = DiskFull(
                f"ENOSPC: no space left for the end of a job on the disk of {ports.reserve.path}",
                remedy="free space on the disk of the state folder",
            )
            return refused_result(claims.payload, full, job_id=claims.jti, host=host)
        try:
            task = self._admit(job)
        except (InvalidRequest, PolicyRefused) as error:
            ports.say("refused", job=claims.jti, reason=error.kind)
            return refused_result(claims.payload, error, job_id=claims.jti, host=host)
        try:
            return task.run()
        except Unavailable as error:
            return refused_result(claims.payload, error, job_id=claims.jti, host=host)
        except RunDied as died:
            record = ports.journal.find(claims.jti)
            assert record is not None, "a claimed job has a record"
            return self._lost(record, died.code, str(died))

    def _admit(self, job: VerifiedJob) -> Task:
        kind = self._ports.kinds.get(canonical_kind(job.claims.kind))
        if kind is None:
            raise unknown_kind()
        return kind.admit(job, self._ports.policy)

    def _lost(self, record: JobRecord, code: str, why: str) -> Outcome:
        with contextlib.suppress(Unavailable, CouldNotCheck):  # the job must have its end
            self._ports.lost_runs.end([record])
        host, tree = self._ports.settings.host, left_worktree(record)
        more = self._ports.lost_runs.bring_home(record.jti)
        return lost_run(record, host=host, worktree=tree, code=code, why=why, more=more)

    def _bury(self, delivery: Delivery, reason: str) -> Ending:
        """Refuse what nobody proved to have sent, or what may not be asked any more: no answer."""
        left = self._offers.leave_unread(delivery) if reason == "unknown_key" else None
        if left is not None:
            return left
        if reason in _OF_A_KNOWN_SENDER and self._ports.journal.find(delivery.job_id) is None:
            self._ports.board.show(delivery.job_id, "refused", reason)
        self._ports.board.bury(delivery.queue_name, delivery.job_id, reason)
        delivery.settle()
        self._ports.say("buried", queue=delivery.queue_name, reason=reason)
        return Ending.SETTLED

    def _tell(self, act: Callable[[], None]) -> None:
        """Do what is only for show or comes again by itself; a broker that is away stops no run."""
        try:
            act()
        except (RedisError, Unavailable, CouldNotCheck):
            return


def _new_job(job: VerifiedJob, settings: HostSettings) -> NewJob:
    """Return what the journal keeps: no task, and the repo as this host has it."""
    claims = job.claims
    shown = {name: claims.payload.get(name) for name in ("agent", "ticket", "mode", "repo")}
    facts = {name: value for name, value in shown.items() if isinstance(value, str)}
    facts = {name: value for name, value in facts.items() if len(value) <= limits.PATH_MAX_CHARS}
    if "repo" in facts:
        facts["repo"] = map_repo(facts["repo"], settings.repo_paths)
    return NewJob(
        jti=claims.jti,
        iss=claims.iss,
        kind=claims.kind,
        lane=claims.lane,
        aud=claims.aud,
        job_sha256=job.sha256,
        iat=claims.iat,
        exp=claims.exp,
        facts={**facts, "kid": job.kid, "host": settings.host},
    )
