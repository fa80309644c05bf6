from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from contracts.errors import InvalidRequest, Unavailable, WaitTimedOut
from contracts.run_agent import Status
from dispatch import AsyncFleetClient
from dispatch.queue import Pushed
from tests.dispatch.desk import PAYLOAD, Desk

T = TypeVar("T")


def run(story: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(story, 60))


def test_many_waits_share_one_connection_and_each_gets_its_own_result(desk: Desk) -> None:
    async def story() -> None:
        async with AsyncFleetClient.open(desk.settings) as client:
            found = await asyncio.gather(
                *(client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"]) for _ in range(20))
            )
            jobs = [job for handles in found for job in handles]
            waits = [asyncio.create_task(client.wait(job, 30)) for job in jobs]
            await asyncio.to_thread(_wait_for_subscriptions, desk, len(jobs))
            assert await asyncio.to_thread(_subscribers, desk) == 1
            for number, job in enumerate(jobs):
                status = Status.COMPLETED if number % 2 else Status.FAILED
                await asyncio.to_thread(desk.answer, job.job_id, "PC1", status)
            results = await asyncio.gather(*waits)
            assert [item.job_id for item in results] == [job.job_id for job in jobs]
            assert [item.status for item in results] == [Status.FAILED, Status.COMPLETED] * 10

    run(story())


def _subscriptions(desk: Desk) -> int:
    with desk.broker.client() as redis:
        return len(redis.pubsub_channels("fd:done:*"))  # type: ignore[arg-type]


def _wait_for_subscriptions(desk: Desk, number: int) -> None:
    pause = threading.Event()
    for _ in range(1_000):
        if _subscriptions(desk) >= number:
            return
        pause.wait(0.02)
    raise AssertionError(f"not {number} subscriptions")


def _subscribers(desk: Desk) -> int:
    with desk.broker.client() as redis:
        clients: Any = redis.client_list(_type="pubsub")
        return len(clients)


def test_every_call_has_its_awaitable(desk: Desk) -> None:
    async def story() -> None:
        async with AsyncFleetClient.open(desk.settings) as client:
            (job,) = await client.enqueue_agent(lane="A", **PAYLOAD)
            assert await client.result(job) is None
            assert [view.job_id for view in await client.jobs()] == [job.job_id]
            assert {host.name for host in await client.hosts()} == {"PC1", "PC2"}
            assert await client.resend(job.job_id) is Pushed.ALREADY_THERE
            await asyncio.to_thread(desk.answer, job.job_id, "PC2")
            assert (await client.wait(job)).host == "PC2"
            with pytest.raises(InvalidRequest):
                await client.enqueue_agent({"agent": "hal"}, lane="A")

    run(story())


def test_two_waits_for_one_job_both_end(desk: Desk) -> None:
    async def story() -> None:
        async with AsyncFleetClient.open(desk.settings) as client:
            (job,) = await client.enqueue_agent(PAYLOAD, lane="A")
            waits = [asyncio.create_task(client.wait(job, 30)) for _ in range(2)]
            await asyncio.sleep(0)
            await asyncio.to_thread(desk.answer, job.job_id, "PC1")
            assert [item.host for item in await asyncio.gather(*waits)] == ["PC1", "PC1"]

    run(story())


def test_a_wait_that_ends_first_raises(desk: Desk) -> None:
    async def story() -> None:
        async with AsyncFleetClient.open(desk.settings) as client:
            (job,) = await client.enqueue_agent(PAYLOAD, lane="A")
            with pytest.raises(WaitTimedOut, match=job.job_id):
                await client.wait(job, 0.2)

    run(story())


def test_a_cancelled_wait_leaves_the_job_and_the_client_usable(desk: Desk) -> None:
    async def story() -> None:
        async with AsyncFleetClient.open(desk.settings) as client:
            (job,) = await client.enqueue_agent(PAYLOAD, lane="A")
            waiting = asyncio.create_task(client.wait(job))
            await asyncio.to_thread(_wait_for_subscriptions, desk, 1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await asyncio.to_thread(desk.answer, job.job_id, "PC1")
            assert (await client.wait(job, 5)).status is Status.COMPLETED

    run(story())


def test_a_wait_outlives_a_restart_of_the_broker(desk: Desk) -> None:
    async def story() -> None:
        async with AsyncFleetClient.open(desk.settings) as client:
            (job,) = await client.enqueue_agent(PAYLOAD, lane="A")
            envelope = await asyncio.to_thread(desk.sign_result, job.job_id, "PC1")
            waiting = asyncio.create_task(client.wait(job, 50))
            await asyncio.to_thread(_wait_for_subscriptions, desk, 1)
            await asyncio.to_thread(desk.broker.restart)
            await asyncio.to_thread(desk.queue().store_result, job.job_id, envelope)
            assert (await waiting).status is Status.COMPLETED

    run(story())


def test_a_broker_that_is_away_from_the_start_raises(desk: Desk) -> None:
    async def story() -> None:
        async with AsyncFleetClient.open(desk.settings) as client:
            (job,) = await client.enqueue_agent(PAYLOAD, lane="A")
            await asyncio.to_thread(desk.broker.stop)
            with pytest.raises(Unavailable):
                await client.wait(job, 1)

    run(story())


def test_a_wait_that_ends_while_the_broker_is_away_says_so(desk: Desk) -> None:
    async def story() -> None:
        async with AsyncFleetClient.open(desk.settings) as client:
            (job,) = await client.enqueue_agent(PAYLOAD, lane="A")
            waiting = asyncio.create_task(client.wait(job, 3))
            await asyncio.to_thread(_wait_for_subscriptions, desk, 1)
            await asyncio.to_thread(desk.broker.stop)
            with pytest.raises(Unavailable):
                await waiting

    run(story())


def test_a_key_a_sweep_and_giving_up_are_the_same_calls(desk: Desk) -> None:
    async def story() -> None:
        async with AsyncFleetClient.open(desk.settings) as client:
            (one,) = await client.enqueue(PAYLOAD, lane="A", idempotency_key="k")
            (two,) = await client.enqueue_agent(PAYLOAD, lane="A", idempotency_key="k")
            assert two.job_id == one.job_id
            assert await client.sweep() == []
            given_up = await client.wait(one, 60, give_up_after_s=1)
            assert [risk.code for risk in given_up.run.risks] == ["abandoned"]
            assert (await client.wait(one, 0)).note == given_up.note
            with pytest.raises(InvalidRequest, match="give-up-after"):
                await client.wait(one, 1, give_up_after_s=0)

    run(story())


def test_a_wait_gives_up_while_the_broker_is_away(desk: Desk) -> None:
    async def story() -> None:
        async with AsyncFleetClient.open(desk.settings) as client:
            (job,) = await client.enqueue_agent(PAYLOAD, lane="A")
            waiting = asyncio.create_task(client.wait(job, 50, give_up_after_s=4))
            await asyncio.to_thread(_wait_for_subscriptions, desk, 1)
            await asyncio.to_thread(desk.broker.stop)
            assert (await waiting).note.startswith("abandoned at ")

    run(story())


def test_what_happens_unannounced_to_one_of_many_waited_jobs_is_found_at_the_next_round(
    desk: Desk,
) -> None:
    async def story() -> None:
        async with AsyncFleetClient.open(desk.settings) as client:
            sent = await client.enqueue_many([PAYLOAD] * 3, lane="A", targets=["PC1"])
            ended, lost, last = (job.job_id for (job,) in sent)
            waits = [asyncio.create_task(client.wait(i, 600)) for i in (ended, lost, last)]
            await asyncio.to_thread(_wait_for_subscriptions, desk, 3)
            envelope = await asyncio.to_thread(desk.sign_result, ended, "PC1")
            with desk.broker.client() as redis:
                redis.lrem("rq:queue:fd.lane.A@PC1", 0, lost)
                redis.set(f"fd:result:{ended}", envelope)
            found = await asyncio.wait_for(waits[0], 25)  # long before each looks by itself
            assert found.status is Status.COMPLETED
            for _ in range(1_000):
                if lost in desk.queued("fd.lane.A@PC1"):
                    break
                await asyncio.sleep(0.02)
            assert lost in desk.queued("fd.lane.A@PC1")
            for job_id in (lost, last):
                await asyncio.to_thread(desk.answer, job_id, "PC1")
            assert [item.host for item in await asyncio.gather(*waits)] == ["PC1"] * 3

    run(story())
