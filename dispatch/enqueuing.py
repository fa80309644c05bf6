"""Queueing what was asked for: checked, signed, on our own disk, then pushed; once for each key."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from contracts import limits
from contracts.clock import Clock
from contracts.errors import FleetError, InvalidRequest, Problem
from contracts.kinds import canonical_kind
from dispatch.answers import Answers
from dispatch.hosts import HostView
from dispatch.http.address import DoorAddress
from dispatch.idempotency import asked_text, check_same, checked_key
from dispatch.job_handle import JobHandle, handle_of
from dispatch.known_hosts import known_hosts
from dispatch.queue import FleetQueue, Pushed
from dispatch.remembered import Remembered
from dispatch.routing import plan_routes
from dispatch.sent import SentJob, SentJobs
from dispatch.sent_keys import AskedOnce
from dispatch.signing import sign_job
from dispatch.sweeper import Sweeper, checked_give_up
from validation.admission import check_payload

_R = TypeVar("_R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a caller asks for; see `FleetClient.enqueue`. Times are seconds."""

    payload: Mapping[str, object]
    kind: str
    lane: str
    ttl_s: int
    key: str | None
    give_up_after_s: float | None
    targets: Sequence[str] | None = None
    resend_lane: bool = False
    door: DoorAddress | None = None  # a host's own, instead of a queue: then it names the target


class Enqueuing:
    """The way in of one sender's jobs."""

    def __init__(
        self, answers: Answers, sweeper: Sweeper, queue: FleetQueue, sent: SentJobs, clock: Clock
    ) -> None:
        self._answers = answers
        self._sweeper = sweeper
        self._queue = queue
        self._sent = sent
        self._clock = clock
        self._hosts = Remembered(self._ask_for_hosts, clock)
        # An older mark than the broker's own says less: that nobody can know, never that none has.
        self._mark = Remembered(queue.data_mark, clock)

    def enqueue(self, wanted: Wanted) -> list[JobHandle]:
        """Queue what is wanted, or find what was queued under its key; see `FleetClient.enqueue`.

        The signed jobs are on disk before the broker hears of them, so that a call which died in
        between is finished by the next one with the same key, with the very same bytes.
        """
        now = int(self._clock.wall())
        if wanted.door is not None and wanted.door.name:
            wanted = replace(wanted, targets=[wanted.door.name])
        if wanted.give_up_after_s is not None:
            checked_give_up(wanted.give_up_after_s)
        if wanted.resend_lane and wanted.key is None:
            problem = Problem("resend-lane", "needs an idempotency key", "a new job is never lost")
            raise InvalidRequest([problem])
        once = None if wanted.key is None else self._once(wanted, wanted.key)
        if once is None:
            jobs = self._sign(wanted, now)
            self._recorded(jobs, lambda marked: self._sent.record(marked, now=now))
            pushed = self._sweeper.push_new(jobs)
        else:
            jobs, pushed = self._enqueue_once(wanted, once, now)
        if wanted.door is not None:
            return _handles(jobs, pushed, None, now)
        handles = _handles(jobs, pushed, self._seen_hosts(self._hosts.value), now)
        if not any(handle.note for handle in handles):
            return handles
        # What somebody may act upon is never a second old.
        return _handles(jobs, pushed, self._seen_hosts(self._hosts.anew), now)

    def _enqueue_once(
        self, wanted: Wanted, once: AskedOnce, now: int
    ) -> tuple[list[SentJob], list[Pushed]]:
        held = self._sent.sent_under(once)
        new = [] if held is not None else self._sign(wanted, now)
        asked, jobs = held or self._recorded(
            new, lambda marked: self._sent.record_once(marked, once, now=now)
        )
        check_same(asked, once.asked, once.key)
        if [job.job_id for job in jobs] == [job.job_id for job in new]:
            return jobs, self._sweeper.push_new(jobs)
        again = wanted.resend_lane
        return jobs, [self._sweeper.push_again(job, resend_lane=again) for job in jobs]

    def _recorded(self, jobs: Sequence[SentJob], record: Callable[[list[SentJob]], _R]) -> _R:
        """Record new jobs together with the broker's mark before their first push, in one step: a
        job that stands here without one was certainly never pushed."""
        try:
            is_queued = not any(job.url for job in jobs)
            mark = self._mark.value() if is_queued else ""
        except FleetError:
            record(list(jobs))  # the next call with its key finds it, with the very same bytes
            raise
        return record([replace(job, broker=mark) for job in jobs])

    def _once(self, wanted: Wanted, key: str) -> AskedOnce:
        checked_key(key)
        # A malformed request is named as such, whatever stands under the key.
        check_payload(wanted.payload, kind=wanted.kind, grammar="any")
        asked = asked_text(
            wanted.payload, kind=wanted.kind, lane=wanted.lane, targets=wanted.targets
        )
        return AskedOnce(self._answers.keyring.name, key, asked)

    def _sign(self, wanted: Wanted, now: int) -> list[SentJob]:
        request = check_payload(wanted.payload, kind=wanted.kind, grammar="any")
        if isinstance(wanted.ttl_s, bool) or not 1 <= wanted.ttl_s <= limits.JOB_TTL_MAX_S:
            raise InvalidRequest(
                [Problem("ttl", "is out of range", f"1 to {limits.JOB_TTL_MAX_S} seconds")]
            )
        keyring = self._answers.keyring
        give_up = wanted.give_up_after_s
        door = wanted.door
        jobs = [
            sign_job(
                keyring,
                route,
                wanted.payload,
                request,
                kind=canonical_kind(wanted.kind),
                iat=now,
                exp=now + wanted.ttl_s,
                give_up_at=None if give_up is None else int(now + give_up),
            )
            for route in plan_routes(keyring, wanted.lane, wanted.targets)
        ]
        if door is None:
            return jobs
        # Later verbs are said in other folders.
        cacert = os.path.abspath(os.path.expanduser(door.cacert)) if door.cacert else ""
        return [replace(job, url=door.url, cacert=cacert) for job in jobs]

    def _ask_for_hosts(self) -> list[HostView]:
        return known_hosts(self._answers.keyring, self._queue)

    def _seen_hosts(self, ask: Callable[[], list[HostView]]) -> list[HostView] | None:
        try:
            return ask()
        except FleetError:
            return None  # the jobs are queued: a note that cannot be made is no reason to fail


def _handles(
    jobs: Sequence[SentJob], pushed: Sequence[Pushed], hosts: Sequence[HostView] | None, now: float
) -> list[JobHandle]:
    pairs = zip(jobs, pushed, strict=True)
    return [handle_of(job, state, hosts, now) for job, state in pairs]
