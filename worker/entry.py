"""The one entry: what happens to a text that stood in Redis, in this order and no other.

Verify, lane claim, journal claim, admission and policy, run, result. Before the signature holds
nothing is believed and nothing is answered; after the journal's claim the job reaches exactly one
result, whatever fails. Composes its ports and owns none of their rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from redis.exceptions import RedisError

from contracts import limits
from contracts.clock import Clock
from contracts.errors import (
    CouldNotCheck,
    EnvelopeRefused,
    InvalidRequest,
    PolicyRefused,
    Refused,
    Unavailable,
)
from contracts.run_agent import RunAgentResult
from dispatch.keyring import HostKeyring
from validation.admission import refused_result
from validation.policy import HostPolicy
from worker.announcer import Say
from worker.board import Board
from worker.delivery import Delivery, Ending
from worker.host_admission import admit
from worker.journal import Journal
from worker.journal_records import JobRecord, NewJob
from worker.journal_schema import JobState
from worker.lane_claims import LaneClaims
from worker.outbox import Outbox
from worker.outcome import lost_run, was_declined
from worker.recovery import left_worktree
from worker.repo_map import map_repo
from worker.runs import RunDied, Runs
from worker.settings import HostSettings
from worker.verification import VerifiedJob, verify_job

# Reasons that are found after the signature and the id: a person who asks for the job is told.
_OF_A_KNOWN_SENDER: Final = frozenset(
    {"lane", "audience", "not_yet_valid", "lifetime", "expired", "before_epoch"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPorts:
    """What the entry works with."""

    settings: HostSettings
    policy: HostPolicy
    keyring: HostKeyring
    journal: Journal
    lanes: LaneClaims
    board: Board
    outbox: Outbox
    runs: Runs
    clock: Clock
    say: Say


class RunEnvelope:
    """The entry object of one listener; called from several threads."""

    def __init__(self, ports: EntryPorts) -> None:
        self._ports = ports

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
        return self._take(job, delivery)

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
        if job.is_for_a_lane:
            holder = ports.lanes.claim(claims.jti, exp=claims.exp)
            if holder is not None:
                delivery.settle()
                ports.say("claimed_elsewhere", job=claims.jti, by=holder)
                return Ending.SETTLED
        if earlier is None:
            try:
                earlier = ports.journal.claim(_new_job(job, ports.settings))
            except EnvelopeRefused as error:
                ports.lanes.release(claims.jti)
                return self._bury(delivery, error.code)
        if earlier is None:
            return self._perform(job, delivery)
        if earlier.state is JobState.REFUSED and earlier.result is None and job.is_for_a_lane:
            return self._offer(job, delivery, ring=False)
        return self._again(earlier, delivery)

    def _again(self, earlier: JobRecord, delivery: Delivery) -> Ending:
        """A message that came before: nothing starts; a result that is there goes out again."""
        self._ports.say("duplicate", job=earlier.jti, state=earlier.state.value)
        self._ports.outbox.publish(earlier)
        delivery.settle()
        return Ending.SETTLED

    def _perform(self, job: VerifiedJob, delivery: Delivery) -> Ending:
        ports, claims = self._ports, job.claims
        ports.say("claimed", job=claims.jti, sender=claims.iss, aud=claims.aud, lane=claims.lane)
        if not job.is_for_a_lane:
            self._tell(delivery.settle)
        self._tell(lambda: ports.board.show(claims.jti, "started"))
        self._tell(lambda: ports.board.show_rq_started(claims.jti, ports.settings.host))
        result = self._result_of(job)
        if job.is_for_a_lane and was_declined(result):
            return self._decline(job, result, delivery)
        ports.outbox.conclude(claims.jti, result)
        self._tell(delivery.settle)
        return Ending.SETTLED

    def _result_of(self, job: VerifiedJob) -> RunAgentResult:
        ports, claims = self._ports, job.claims
        host = ports.settings.host
        try:
            task = admit(job, ports.settings, ports.policy)
        except (InvalidRequest, PolicyRefused) as error:
            ports.say("refused", job=claims.jti, reason=error.kind)
            return refused_result(claims.payload, error, job_id=claims.jti, host=host)
        try:
            return ports.runs.run(task, ports.settings.runtime_dir(claims.jti))
        except Unavailable as error:
            return refused_result(claims.payload, error, job_id=claims.jti, host=host)
        except RunDied as died:
            record = ports.journal.find(claims.jti)
            assert record is not None, "a claimed job has a record"
            return self._lost(record, "run_process_died", str(died))

    def _decline(self, job: VerifiedJob, result: RunAgentResult, delivery: Delivery) -> Ending:
        """Nothing was started here: note why, and offer the job to the lane's other hosts."""
        ports, job_id = self._ports, job.claims.jti
        reason = result.risks[0].message if result.risks else result.summary
        ports.journal.record(job_id, JobState.REFUSED, why=reason)
        ports.say("declined", job=job_id, lane=job.claims.lane)
        return self._offer(job, delivery, ring=True)

    def _offer(self, job: VerifiedJob, delivery: Delivery, *, ring: bool) -> Ending:
        ports, claims = self._ports, job.claims
        reason = ports.journal.history(claims.jti)[-1].why
        ports.lanes.refuse(claims.jti, reason)
        refusals = ports.lanes.refusals(claims.jti)
        undecided = ports.lanes.others_alive(claims.lane) - {item.host for item in refusals}
        if undecided:
            ports.board.show(claims.jti, "queued", f"{ports.settings.host} declined: {reason}")
            ports.lanes.release(claims.jti)
            delivery.pass_on(lane=claims.lane, ring=ring)
            return Ending.PASSED_ON
        said = "; ".join(f"{item.host}: {item.reason}" for item in refusals)
        refusal = Refused(
            f"every live host of lane {claims.lane} declined: {said}",
            code="lane_declined",
            remedy="mend one of these, or address a host that has the repository",
        )
        host = ports.settings.host
        result = refused_result(claims.payload, refusal, job_id=claims.jti, host=host)
        ports.outbox.conclude(claims.jti, result)
        delivery.settle()
        return Ending.SETTLED

    def _lost(self, record: JobRecord, code: str, why: str) -> RunAgentResult:
        host, tree = self._ports.settings.host, left_worktree(record)
        return lost_run(record, host=host, worktree=tree, code=code, why=why)

    def _bury(self, delivery: Delivery, reason: str) -> Ending:
        """Refuse what nobody proved to have sent, or what may not be asked any more: no answer."""
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
        facts={**facts, "kid": job.kid},
    )
