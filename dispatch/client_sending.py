"""The part of a client that sends: one job, many jobs, and a job to a host's own door.

What it takes to check and sign is loaded by the first job: a client that only looks sends none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final

from contracts import limits
from contracts.clock import Clock
from contracts.errors import InvalidRequest
from contracts.kinds import Kind
from dispatch.answers import Answers
from dispatch.queue import FleetQueue
from dispatch.sent import SentJobs
from dispatch.sweeper import Sweeper

if TYPE_CHECKING:
    from contracts.run_agent import RunAgentRequest
    from dispatch.bulk import Bulk
    from dispatch.config_http import HostSectionOfSender
    from dispatch.enqueuing import Enqueuing
    from dispatch.job_handle import JobHandle

KIND: Final = Kind.RUN_AGENT.value


class ClientSending:
    """Jobs in. Raises what `FleetClient` says."""

    def __init__(
        self,
        answers: Answers,
        sweeper: Sweeper,
        queue: FleetQueue,
        sent: SentJobs,
        clock: Clock,
        *,
        doors: Mapping[str, HostSectionOfSender],
    ) -> None:
        self._parts = answers, sweeper, queue, sent, clock
        self._doors = doors

    @cached_property
    def _enqueuing(self) -> Enqueuing:
        from dispatch.enqueuing import Enqueuing

        return Enqueuing(*self._parts)

    @cached_property
    def _bulk(self) -> Bulk:
        from dispatch.bulk import Bulk

        answers, sweeper, _, sent, clock = self._parts
        return Bulk(answers, self._enqueuing, sweeper, sent, clock)

    def enqueue_agent(
        self,
        request: RunAgentRequest | Mapping[str, object] | None = None,
        *,
        lane: str,
        targets: Sequence[str] | None = None,
        ttl_s: int = limits.JOB_TTL_DEFAULT_S,
        idempotency_key: str | None = None,
        give_up_after_s: float | None = None,
        **request_fields: object,
    ) -> list[JobHandle]:
        """Queue one `run_agent` job per target, or one for the first free host of `lane`.

        The request is a model, a mapping, or keyword arguments; nothing is added to what was given.
        `ttl_s` is how long it may wait for a host. When it raises, nothing is queued, or the same
        call with the same `idempotency_key` finds what was.
        """
        from contracts.run_agent import RunAgentRequest

        given = request.to_payload() if isinstance(request, RunAgentRequest) else request or {}
        return self.enqueue(
            {**given, **request_fields},
            lane=lane,
            targets=targets,
            ttl_s=ttl_s,
            idempotency_key=idempotency_key,
            give_up_after_s=give_up_after_s,
        )

    def enqueue(
        self,
        payload: Mapping[str, object],
        *,
        kind: str = KIND,
        lane: str,
        targets: Sequence[str] | None = None,
        ttl_s: int = limits.JOB_TTL_DEFAULT_S,
        idempotency_key: str | None = None,
        give_up_after_s: float | None = None,
        resend_lane: bool = False,
    ) -> list[JobHandle]:
        """Queue `payload` of any kind; see `enqueue_agent`.

        With `idempotency_key` the first call queues and every later one returns the same jobs, for
        90 days, whatever died in between; it raises Refused (`key_reused`) for another job under
        that key. `give_up_after_s`: so many seconds from now this sender ends the job as
        `abandoned` if nothing came. `resend_lane`: see `resend`.
        """
        from dispatch.enqueuing import Wanted

        wanted = Wanted(
            payload=payload,
            kind=kind,
            lane=lane,
            targets=targets,
            ttl_s=ttl_s,
            key=idempotency_key,
            give_up_after_s=give_up_after_s,
            resend_lane=resend_lane,
        )
        return self._enqueuing.enqueue(wanted)

    def enqueue_many(
        self,
        payloads: Iterable[Mapping[str, object] | InvalidRequest],
        *,
        kind: str = KIND,
        lane: str,
        targets: Sequence[str] | None = None,
        ttl_s: int = limits.JOB_TTL_DEFAULT_S,
        idempotency_key: str | None = None,
        give_up_after_s: float | None = None,
        places: Sequence[str] | None = None,
        on_batch: Callable[[int], None] | None = None,
    ) -> list[list[JobHandle]]:
        """Queue each of `payloads`; return for each what `enqueue` returns. 10 000 at most.

        All are checked before the first is signed; InvalidRequest names them by `places`, one for
        each. An InvalidRequest in the place of a payload says why that could not be read: it is
        named with the others. They go in batches, each recorded here before it is pushed, each
        queued whole or not at all. `on_batch` is told how many are done. The n-th has the key
        `KEY#n`, from 1. Raises BulkStopped, which holds the jobs so far, when the broker or the
        disk goes away meanwhile; it is the cause of a KeyboardInterrupt that came meanwhile.
        """
        from dispatch.bulk_checks import BULK_MAX_PAYLOADS, WantedMany

        chosen = list(islice(payloads, BULK_MAX_PAYLOADS + 1))  # one more says that they are many
        named = places or [f"payload {number}" for number in range(1, len(chosen) + 1)]
        wanted = WantedMany(
            payloads=chosen,
            places=named,
            kind=kind,
            lane=lane,
            targets=targets,
            ttl_s=ttl_s,
            key=idempotency_key,
            give_up_after_s=give_up_after_s,
            on_batch=on_batch,
        )
        return self._bulk.enqueue(wanted)

    def send(
        self,
        payload: Mapping[str, object],
        *,
        target: str,
        kind: str = KIND,
        lane: str,
        ttl_s: int = limits.JOB_TTL_DEFAULT_S,
        idempotency_key: str | None = None,
        give_up_after_s: float | None = None,
        cacert: str = "",  # a PEM file: whom to trust for the door's certificate
    ) -> JobHandle:
        """Hand `payload` to a host's HTTP door; it is on that disk when this returns. `target` is a
        name or a URL in config.toml; another URL gets a job for the lane."""
        from dispatch.enqueuing import Wanted
        from dispatch.http.address import find_door

        wanted = Wanted(
            payload=payload,
            kind=kind,
            lane=lane,
            ttl_s=ttl_s,
            key=idempotency_key,
            give_up_after_s=give_up_after_s,
            door=find_door(target, self._doors, cacert=cacert),
        )
        return self._enqueuing.enqueue(wanted)[0]
