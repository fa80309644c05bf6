"""Queueing what was asked for: checked, signed, on our own disk, then pushed; once for each key."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from contracts import limits
from contracts.clock import Clock
from contracts.errors import FleetError, InvalidRequest, Problem
from contracts.kinds import canonical_kind
from dispatch.answers import Answers
from dispatch.hosts import HostView
from dispatch.http.address import DoorAddress
from dispatch.idempotency import asked_text, check_same, checked_key
from dispatch.job_handle import JobHandle, handles_of
from dispatch.known_hosts import known_hosts
from dispatch.queue import FleetQueue, Pushed
from dispatch.remembered import Remembered
from dispatch.routing import plan_routes
from dispatch.sent import SentJob, SentJobs
from dispatch.sent_keys import AskedOnce
from dispatch.signing import sign_job
from dispatch.sweeper import Sweeper, checked_give_up
from validation.admission import check_payload


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
            jobs, away = self._sign_marked(wanted, now)
            self._sent.record(jobs, now=now)
            if away is not None:
                raise away
            pushed = self._sweeper.push_new(jobs, is_keyed=False)
        else:
            jobs, pushed = self._enqueue_once(wanted, once, now)
        if wanted.door is not None:
            return handles_of(jobs, pushed, None, now)
        return self.handles(jobs, pushed, now)

    def handles(
        self, jobs: Sequence[SentJob], pushed: Sequence[Pushed], now: float
    ) -> list[JobHandle]:
        """Return the handles of jobs that were just queued, with why they may have to wait."""
        handles = handles_of(jobs, pushed, self._seen_hosts(self._hosts.value), now)
        if not any(handle.note for handle in handles):
            return handles
        # What somebody may act upon is never a second old.
        return handles_of(jobs, pushed, self._seen_hosts(self._hosts.anew), now)

    def _enqueue_once(
        self, wanted: Wanted, once: AskedOnce, now: int
    ) -> tuple[list[SentJob], list[Pushed]]:
        held, new, away = self._sent.sent_under(once), list[SentJob](), None
        if held is None:
            new, away = self._sign_marked(wanted, now)
            held = self._sent.record_once(new, once, now=now)
        if away is not None:
            raise away  # the next call with its key finds it, with the very same bytes
        asked, jobs = held
        check_same(asked, once.asked, once.key)
        if [job.job_id for job in jobs] == [job.job_id for job in new]:
            return jobs, self._sweeper.push_new(jobs, is_keyed=True)
        again = wanted.resend_lane
        return jobs, [self._sweeper.push_again(job, resend_lane=again) for job in jobs]

    def mark(self) -> tuple[str, FleetError | None]:
        """Return the broker's mark, or "" and why it could not be asked. Jobs are recorded together
        with it, in one step before their first push: one that stands in the record without a mark
        was certainly never pushed."""
        try:
            return self._mark.value(), None
        except FleetError as error:
            return "", error

    def _sign_marked(self, wanted: Wanted, now: int) -> tuple[list[SentJob], FleetError | None]:
        request = check_payload(wanted.payload, kind=wanted.kind, grammar="any")
        check_ttl(wanted.ttl_s)
        keyring = self._answers.keyring
        routes = plan_routes(keyring, wanted.lane, wanted.targets)
        signers = [keyring.job_signers(route.aud) for route in routes]
        mark, away = ("", None) if wanted.door is not None else self.mark()
        give_up = wanted.give_up_after_s
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
                broker=mark,
                signers=signing,
            )
            for route, signing in zip(routes, signers, strict=True)
        ]
        door = wanted.door
        if door is None:
            return jobs, away
        # Later verbs are said in other folders.
        cacert = os.path.abspath(os.path.expanduser(door.cacert)) if door.cacert else ""
        return [replace(job, url=door.url, cacert=cacert) for job in jobs], None

    def _once(self, wanted: Wanted, key: str) -> AskedOnce:
        checked_key(key)
        # A malformed request is named as such, whatever stands under the key.
        check_payload(wanted.payload, kind=wanted.kind, grammar="any")
        asked = asked_text(
            wanted.payload, kind=wanted.kind, lane=wanted.lane, targets=wanted.targets
        )
        return AskedOnce(self._answers.keyring.name, key, asked)

    def _ask_for_hosts(self) -> list[HostView]:
        return known_hosts(self._answers.keyring, self._queue)

    def _seen_hosts(self, ask: Callable[[], list[HostView]]) -> list[HostView] | None:
        try:
            return ask()
        except FleetError:
            return None  # the jobs are queued: a note that cannot be made is no reason to fail


def check_ttl(ttl_s: object) -> None:
    """Raise InvalidRequest unless a job may wait so many seconds for a host."""
    is_number = isinstance(ttl_s, int) and not isinstance(ttl_s, bool)
    if not is_number or not 1 <= int(str(ttl_s)) <= limits.JOB_TTL_MAX_S:
        raise InvalidRequest(
            [Problem("ttl", "is out of range", f"1 to {limits.JOB_TTL_MAX_S} seconds")]
        )
