"""Many jobs waited for at once: one connection, and a cost for each that does not grow."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from contracts import limits
from contracts.errors import Refused, Unavailable, WaitTimedOut
from contracts.run_agent import Status
from dispatch.results import JobResult
from tests.dispatch.desk import PAYLOAD, Desk
from tests.dispatch.test_bulk import commands, many

# What the test itself gives to the broker, and what a mark and a push need.
_ASKED: tuple[str, ...] = ("getrange", "memory|usage", "eval_ro", "exists", "type", "lpos")


def counted_wait(desk: Desk, count: int) -> Counter[str]:
    """Return which commands it took to wait for so many jobs that end one by one."""
    with desk.client() as client, ThreadPoolExecutor(1) as pool:
        ids = [job.job_id for (job,) in client.enqueue_many(many(count), lane="A")]
        looked = threading.Event()

        def wait() -> None:
            waiting = pool.submit(client.wait_many, ids, 120, on_look=looked.set)
            assert looked.wait(30)
            for job_id in ids:
                desk.answer(job_id, "PC1")
            found = waiting.result(120)
            assert [item.status for item in found if isinstance(item, JobResult)] == [
                Status.COMPLETED
            ] * count

        return commands(desk.broker, wait)


def test_what_a_waited_job_costs_is_the_same_for_2_20_and_200(desk: Desk) -> None:
    desk.beat("PC1", "A", seconds=600)
    each: dict[int, float] = {}
    for count in (2, 20, 200):
        found = counted_wait(desk, count)
        assert found["subscribe"] == 1
        each[count] = sum(found[name] for name in _ASKED) / count
    assert each[20] <= each[2]
    assert each[200] <= each[20]
    assert each[200] < 30


def test_an_end_that_nobody_announced_is_found_at_the_end_of_the_wait(desk: Desk) -> None:
    with desk.client() as client, ThreadPoolExecutor(1) as pool:
        ids = [job.job_id for (job,) in client.enqueue_many(many(2), lane="A")]
        looked = threading.Event()
        waiting = pool.submit(client.wait_many, ids, 2, on_look=looked.set)
        assert looked.wait(30)
        envelope = desk.sign_result(ids[0], "PC1")
        with desk.broker.client() as redis:
            redis.set(f"fd:result:{ids[0]}", envelope)
        first, second = waiting.result(60)
    assert isinstance(first, JobResult)
    assert isinstance(second, WaitTimedOut)


def test_a_host_that_falls_silent_has_all_jobs_looked_at(desk: Desk) -> None:
    desk.beat("PC1", "A", seconds=600)
    looks = threading.Semaphore(0)
    with desk.client() as client, ThreadPoolExecutor(1) as pool:
        ids = [job.job_id for (job,) in client.enqueue_many(many(2), lane="A")]
        waiting = pool.submit(client.wait_many, ids, 60, on_look=looks.release)
        assert looks.acquire(timeout=30)
        with desk.broker.client() as redis:
            redis.delete("fd:host:PC1")
        assert looks.acquire(timeout=20)
        for job_id in ids:
            desk.answer(job_id, "PC1")
        assert len(waiting.result(60)) == 2


def test_a_broker_that_was_emptied_has_its_lost_jobs_again_without_a_poll(desk: Desk) -> None:
    looks = threading.Semaphore(0)
    with desk.client() as client, ThreadPoolExecutor(1) as pool:
        sent = client.enqueue_many(many(2), lane="A", targets=["PC1"])
        ids = [job.job_id for (job,) in sent]
        waiting = pool.submit(client.wait_many, ids, 60, on_look=looks.release)
        assert looks.acquire(timeout=30)
        with desk.broker.client() as redis:
            redis.flushall()
        assert looks.acquire(timeout=20)
        assert sorted(desk.queued("fd.lane.A@PC1")) == sorted(ids)
        for job_id in ids:
            desk.answer(job_id, "PC1")
        assert all(isinstance(item, JobResult) for item in waiting.result(60))


def test_a_broker_that_restarts_meanwhile_ends_no_wait(desk: Desk) -> None:
    looks = threading.Semaphore(0)
    with desk.client() as client, ThreadPoolExecutor(1) as pool:
        ids = [j.job_id for (j,) in client.enqueue_many(many(2), lane="A", targets=["PC1"])]
        waiting = pool.submit(client.wait_many, ids, 60, on_look=looks.release)
        assert looks.acquire(timeout=30)
        desk.broker.restart()
        assert looks.acquire(timeout=30)
        for job_id in ids:
            desk.answer(job_id, "PC1")
        assert all(isinstance(item, JobResult) for item in waiting.result(60))


def test_an_end_that_came_while_the_subscription_was_cut_is_looked_for(desk: Desk) -> None:
    desk.beat("PC1", "A", seconds=600)
    looks = threading.Semaphore(0)
    with desk.client() as client, ThreadPoolExecutor(1) as pool:
        ids = [job.job_id for (job,) in client.enqueue_many(many(2), lane="A")]
        waiting = pool.submit(client.wait_many, ids, 60, on_look=looks.release)
        assert looks.acquire(timeout=30)
        envelope = desk.sign_result(ids[0], "PC1")
        with desk.broker.client() as redis, redis.pipeline(transaction=True) as cut:
            cut.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
            cut.set(f"fd:result:{ids[0]}", envelope)
            cut.publish(f"fd:done:{ids[0]}", b"1")
            assert cut.execute()[0] == 1
        assert looks.acquire(timeout=20)  # long before it looks by itself
        assert client.waits._answers.has_result(client.waits._answers.sent_job(ids[0]))
        desk.answer(ids[1], "PC1")
        assert all(isinstance(item, JobResult) for item in waiting.result(60))


def test_jobs_whose_time_is_over_meanwhile_are_looked_at_and_end_as_that(desk: Desk) -> None:
    desk.beat("PC1", "A", seconds=600)
    looks = threading.Semaphore(0)
    with desk.client() as client:
        ids = [job.job_id for (job,) in client.enqueue_many(many(2), lane="A", ttl_s=1)]
    # Over in ten seconds: a second of its own, and the accepted skew.
    with desk.client(ahead_s=limits.SKEW_S - 9) as client, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.wait_many, ids, 60, on_look=looks.release)
        assert looks.acquire(timeout=30)
        assert looks.acquire(timeout=20)  # long before it looks by itself
        found = waiting.result(10)
    assert [item.note[:7] for item in found if isinstance(item, JobResult)] == ["expired"] * 2


def test_a_broker_that_is_full_keeps_no_end_from_being_found(desk: Desk) -> None:
    desk.beat("PC1", "A", seconds=600)
    looks = threading.Semaphore(0)
    with desk.client() as client, ThreadPoolExecutor(1) as pool:
        ids = [job.job_id for (job,) in client.enqueue_many(many(2), lane="A")]
        waiting = pool.submit(client.wait_many, ids, 60, on_look=looks.release)
        assert looks.acquire(timeout=30)
        with desk.broker.client() as redis:
            for job_id in ids:
                redis.set(f"fd:result:{job_id}", desk.sign_result(job_id, "PC1"))
            redis.config_set("maxmemory", "100kb")
        assert all(isinstance(item, JobResult) for item in waiting.result(20))


def test_jobs_are_given_up_while_the_broker_is_away(desk: Desk) -> None:
    looked = threading.Event()
    with desk.client() as client, ThreadPoolExecutor(1) as pool:
        sent: Any = client.enqueue_many(many(2), lane="A", targets=["PC1"], give_up_after_s=3)
        ids = [job.job_id for (job,) in sent]
        waiting = pool.submit(client.wait_many, ids, 60, on_look=looked.set)
        assert looked.wait(30)
        desk.broker.stop()
        found = waiting.result(60)
    assert [item.receipt is not None for item in found if isinstance(item, JobResult)] == [True] * 2


def test_each_job_that_has_no_end_says_why(desk: Desk) -> None:
    with desk.client() as client:
        ids = [job.job_id for (job,) in client.enqueue_many(many(2), lane="A")]
        unknown, *late = client.wait_many(["a" * 20, *ids], 0.1)
        assert isinstance(unknown, Refused)
        assert [type(item) for item in late] == [WaitTimedOut] * 2
        desk.broker.stop()
        assert [type(item) for item in client.wait_many(ids, 5)] == [Unavailable] * 2
        assert client.wait_many([], 1) == []


@pytest.mark.parametrize("count", [1, 2])
def test_what_is_kept_here_needs_no_broker(desk: Desk, count: int) -> None:
    with desk.client() as client:
        ids = [client.enqueue(PAYLOAD, lane="A")[0].job_id for _ in range(count)]
        for job_id in ids:
            desk.answer(job_id, "PC1")
        client.wait_many(ids, 30)
        desk.broker.stop()
        assert all(isinstance(item, JobResult) for item in client.wait_many(ids, 30))
