"""FleetClient: the one way in for programs and for the verbs.

Checks, routes, signs, records and queues a job; finds and verifies its result. A status of the
contract never raises. What raises: InvalidRequest for a malformed request, Refused for a missing
key, Unavailable for a broker or disk that is away, WaitTimedOut for a wait that ends first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from contracts import limits
from contracts.clock import Clock, SystemClock
from contracts.errors import FleetError, InvalidRequest, KeysRefused, Problem, Refused, Unavailable
from contracts.ids import checked_job_id
from contracts.run_agent import KIND, RunAgentRequest, Status
from dispatch.hosts import HostView, view_hosts
from dispatch.job_handle import JobHandle, handle_of
from dispatch.job_views import JobView, view_job
from dispatch.keyring import SenderKeyring
from dispatch.queue import FleetQueue, Pushed
from dispatch.results import JobResult, choose_result
from dispatch.routing import plan_routes
from dispatch.sent import SentJob, SentJobs
from dispatch.settings import Settings, load_settings
from dispatch.signing import outgoing, sign_job
from validation.admission import check_payload


class FleetClient:
    """A sender. Safe to use from threads; close it, or use it in a `with` block."""

    def __init__(
        self,
        keyring: SenderKeyring | KeysRefused,
        queue: FleetQueue,
        sent: SentJobs,
        clock: Clock | None = None,
    ) -> None:
        # A machine without a sender's identity can still look: its refusal is kept for later.
        self._ring = keyring
        self._queue = queue
        self._sent = sent
        self._clock: Clock = clock or SystemClock()

    @classmethod
    def open(cls, settings: Settings | None = None, *, clock: Clock | None = None) -> FleetClient:
        """Return the client of this installation; nothing is sent yet.

        Raises InvalidRequest for a bad configuration and KeysRefused for keys others could read.
        """
        chosen = settings or load_settings()
        held = clock or SystemClock()
        keyring: SenderKeyring | KeysRefused
        try:
            keyring = SenderKeyring.load(chosen.places.keys_dir, chosen.sender_name, held)
        except KeysRefused as error:
            if error.code != "missing":
                raise
            keyring = error
        queue = FleetQueue.connect(chosen.redis_url, held)
        return cls(keyring, queue, SentJobs(chosen.places.sent_file), held)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._queue.close()

    # -- jobs in --------------------------------------------------------------------------------

    def enqueue_agent(
        self,
        request: RunAgentRequest | Mapping[str, object] | None = None,
        *,
        lane: str,
        targets: Sequence[str] | None = None,
        ttl_s: int = limits.JOB_TTL_DEFAULT_S,
        **request_fields: object,
    ) -> list[JobHandle]:
        """Queue one `run_agent` job per target, or one for the first free host of `lane`.

        The request is a model, a mapping, or keyword arguments; nothing is added to what was given.
        `ttl_s` is how long it may wait for a host. When it raises, nothing is queued.
        """
        given = request.to_payload() if isinstance(request, RunAgentRequest) else request or {}
        return self.enqueue({**given, **request_fields}, lane=lane, targets=targets, ttl_s=ttl_s)

    def enqueue(
        self,
        payload: Mapping[str, object],
        *,
        kind: str = KIND,
        lane: str,
        targets: Sequence[str] | None = None,
        ttl_s: int = limits.JOB_TTL_DEFAULT_S,
    ) -> list[JobHandle]:
        """Queue `payload` of any kind; see `enqueue_agent`."""
        request = check_payload(payload, kind=kind, grammar="any")
        if isinstance(ttl_s, bool) or not 1 <= ttl_s <= limits.JOB_TTL_MAX_S:
            raise InvalidRequest(
                [Problem("ttl", "is out of range", f"1 to {limits.JOB_TTL_MAX_S} seconds")]
            )
        keyring = self._keyring()
        routes = plan_routes(keyring, lane, targets)
        now = int(self._clock.wall())
        jobs = [
            sign_job(keyring, route, payload, request, kind=kind, iat=now, exp=now + ttl_s)
            for route in routes
        ]
        self._sent.record(jobs, now=now)
        pushed = self._queue.push_all([outgoing(job) for job in jobs])
        try:
            hosts: list[HostView] | None = self.hosts()
        except FleetError:
            hosts = None  # the jobs are queued: a note that cannot be made is no reason to fail
        return [handle_of(job, state, hosts, now) for job, state in zip(jobs, pushed, strict=True)]

    def resend(self, job_id: str) -> Pushed:
        """Queue a job of ours again, byte for byte, unless it is there or has a result.

        Meant for a broker that lost its data; a host never starts the same job twice.
        """
        job = self._sent_job(job_id)
        if not job.envelope:
            return Pushed.FINISHED
        return self._queue.push_all([outgoing(job)])[0]

    # -- results out ----------------------------------------------------------------------------

    def result(self, job: JobHandle | str) -> JobResult | None:
        """Return the verified result of a job of ours, None when there is none yet.

        The first verified one is kept on this machine and answers even when the broker is away.
        Raises Refused (`unknown_job`) for a job that this sender has no record of.
        """
        sent = self._sent_job(job)
        kept = self._sent.kept_result(sent.job_id)
        try:
            stored = self._queue.result_texts(sent.job_id)
        except Unavailable:
            if kept is None:
                raise
            stored = []
        return self._choose(sent, stored)

    def wait(self, job: JobHandle | str, timeout_s: float | None = None) -> JobResult:
        """Return the verified result of a job as soon as there is one.

        `timeout_s` None waits for ever. Raises WaitTimedOut, and what `result` raises.
        """
        sent = self._sent_job(job)
        kept = self._sent.kept_result(sent.job_id)
        found = self._choose(sent, []) if kept is not None else None
        if found is not None:
            return found
        return self._queue.wait_result(
            sent.job_id, lambda stored: self._choose(sent, stored), timeout_s
        )

    # -- what is shown --------------------------------------------------------------------------

    def jobs(self, limit: int = 50) -> list[JobView]:
        """Return at most `limit` of the newest jobs: ours, and what the broker shows of others'."""
        hosts, now = self.hosts(), self._clock.wall()
        ours = {job.job_id: job for job in self._sent.recent(limit)}
        ids = dict.fromkeys([*ours, *self._queue.recent_job_ids(limit)])
        views = [
            view_job(
                job_id,
                self._queue.shown(job_id),
                ours.get(job_id),
                hosts,
                verified=self._verified(ours.get(job_id)),
                now=now,
            )
            for job_id in ids
        ]
        return sorted(views, key=lambda view: view.age_s)[:limit]

    def hosts(self) -> list[HostView]:
        """Return every host that was seen or granted keys, silent ones included."""
        granted: dict[str, Sequence[str]] = {}
        if isinstance(self._ring, SenderKeyring):
            names = {grant.host for grant in self._ring.grants}
            granted = {name: sorted(self._ring.lanes_of(name) or ()) for name in names}
        return view_hosts(self._queue.heartbeats(), list(granted.items()))

    # -- inside ---------------------------------------------------------------------------------

    def _keyring(self) -> SenderKeyring:
        if isinstance(self._ring, KeysRefused):
            raise self._ring
        return self._ring

    def _sent_job(self, job: JobHandle | str) -> SentJob:
        self._keyring()
        job_id = checked_job_id(job if isinstance(job, str) else job.job_id)
        sent = self._sent.find(job_id)
        if sent is None:
            raise Refused(
                f"this sender has no record of job {job_id}, so no result of it can be checked",
                code="unknown_job",
                remedy="ask on the machine that sent it",
            )
        return sent

    def _choose(self, sent: SentJob, stored: Sequence[str]) -> JobResult | None:
        keyring, kept = self._keyring(), self._sent.kept_result(sent.job_id)
        found = choose_result([*([kept] if kept else []), *stored], keyring, sent)
        if found is None or kept is not None:
            return found
        first = self._sent.keep_result(sent.job_id, found.envelope)
        return choose_result([first, *stored], keyring, sent)

    def _verified(self, sent: SentJob | None) -> tuple[Status, str] | None:
        if sent is None or isinstance(self._ring, KeysRefused):
            return None
        found = self.result(sent.job_id)
        return None if found is None else (found.status, found.host)
