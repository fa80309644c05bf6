"""AsyncFleetClient: FleetClient for asyncio, with any number of waits on one connection.

Short calls run on a thread; a wait holds no thread while nothing happens. Use it from one event
loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from contracts import limits
from contracts.clock import Clock, SystemClock
from contracts.errors import InvalidRequest, Unavailable, WaitTimedOut
from contracts.run_agent import KIND, RunAgentRequest
from dispatch.async_rounds import AsyncRounds
from dispatch.cancelling import Cancelled
from dispatch.client import FleetClient
from dispatch.hosts import HostView
from dispatch.job_handle import JobHandle
from dispatch.job_views import JobView
from dispatch.queue import Pushed
from dispatch.queue.async_bells import AsyncBells
from dispatch.queue.result_store import RECHECK_S
from dispatch.results import JobResult
from dispatch.rounds import LOOK_EVERY_S
from dispatch.settings import Settings, load_settings
from dispatch.sweeper import Swept


class AsyncFleetClient:
    """The same calls as FleetClient, awaitable, raising the same errors."""

    def __init__(self, client: FleetClient, bells: AsyncBells, clock: Clock | None = None) -> None:
        self._client = client
        self._bells = bells
        self._rounds = AsyncRounds(client.waits.rounds(), bells.ring)
        self._clock: Clock = clock or SystemClock()

    @classmethod
    def open(
        cls, settings: Settings | None = None, *, clock: Clock | None = None
    ) -> AsyncFleetClient:
        """Return the client of this installation; see `FleetClient.open`."""
        chosen = settings or load_settings()
        client = FleetClient.open(chosen, clock=clock)
        return cls(client, AsyncBells(chosen.redis_url), clock)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the subscription and give the connections back."""
        await self._rounds.close()
        await self._bells.close()
        await asyncio.to_thread(self._client.close)

    async def enqueue_agent(
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
        """See `FleetClient.enqueue_agent`."""
        given = request.to_payload() if isinstance(request, RunAgentRequest) else request or {}
        return await self.enqueue(
            {**given, **request_fields},
            lane=lane,
            targets=targets,
            ttl_s=ttl_s,
            idempotency_key=idempotency_key,
            give_up_after_s=give_up_after_s,
        )

    async def enqueue(
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
        """See `FleetClient.enqueue`."""
        return await asyncio.to_thread(
            self._client.enqueue,
            payload,
            kind=kind,
            lane=lane,
            targets=targets,
            ttl_s=ttl_s,
            idempotency_key=idempotency_key,
            give_up_after_s=give_up_after_s,
            resend_lane=resend_lane,
        )

    async def enqueue_many(
        self,
        payloads: Iterable[Mapping[str, object] | InvalidRequest],
        *,
        kind: str = KIND,
        lane: str,
        targets: Sequence[str] | None = None,
        ttl_s: int = limits.JOB_TTL_DEFAULT_S,
        idempotency_key: str | None = None,
        give_up_after_s: float | None = None,
    ) -> list[list[JobHandle]]:
        """See `FleetClient.enqueue_many`."""
        return await asyncio.to_thread(
            self._client.enqueue_many,
            payloads,
            kind=kind,
            lane=lane,
            targets=targets,
            ttl_s=ttl_s,
            idempotency_key=idempotency_key,
            give_up_after_s=give_up_after_s,
        )

    async def resend(self, job_id: str, *, resend_lane: bool = False) -> Pushed:
        """See `FleetClient.resend`."""
        return await asyncio.to_thread(self._client.resend, job_id, resend_lane=resend_lane)

    async def cancel(self, job: JobHandle | str, *, why: str = "") -> Cancelled:
        """See `FleetClient.cancel`."""
        return await asyncio.to_thread(self._client.cancel, job, why=why)

    async def sweep(self) -> list[Swept]:
        """See `FleetClient.sweep`."""
        return await asyncio.to_thread(self._client.sweep)

    async def result(self, job: JobHandle | str) -> JobResult | None:
        """See `FleetClient.result`."""
        return await asyncio.to_thread(self._client.result, job)

    async def wait(
        self,
        job: JobHandle | str,
        timeout_s: float | None = None,
        *,
        give_up_after_s: float | None = None,
    ) -> JobResult:
        """See `FleetClient.wait`. A cancelled wait leaves the job alone."""
        job_id, waits = job if isinstance(job, str) else job.job_id, self._client.waits
        found = await asyncio.to_thread(waits.begin, job_id, give_up_after_s)
        if found is None:
            found = await asyncio.to_thread(waits.look, job_id)
        if found is not None:
            return found
        give_up = None if timeout_s is None else self._clock.monotonic() + timeout_s
        sent = await asyncio.to_thread(waits.sent, job_id)
        async with self._bells.hearing(job_id) as announced, self._rounds.including(sent):
            while True:
                announced.clear()
                away: Unavailable | None = None
                try:
                    found = await asyncio.to_thread(waits.look, job_id, self._rounds.hosts)
                except Unavailable as error:
                    away = error
                    found = await asyncio.to_thread(waits.given_up, job_id)
                if found is not None:
                    return found
                pause = RECHECK_S if away is not None or sent.url else LOOK_EVERY_S
                left = pause if give_up is None else give_up - self._clock.monotonic()
                if left <= 0:
                    raise away or WaitTimedOut(
                        f"no result of {job_id} within {round(timeout_s or 0.0, 1):g} s",
                        remedy="wait again",
                    )
                await _sleep_until(announced, min(left, pause))

    async def jobs(self, limit: int = 50) -> list[JobView]:
        """See `FleetClient.jobs`."""
        return await asyncio.to_thread(self._client.jobs, limit)

    async def hosts(self) -> list[HostView]:
        """See `FleetClient.hosts`."""
        return await asyncio.to_thread(self._client.hosts)


async def _sleep_until(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return
