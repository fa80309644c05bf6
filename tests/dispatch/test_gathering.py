"""Many jobs waited for at once: one connection, and a cost for each that does not grow."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from contracts import limits
from contracts.errors import CouldNotCheck, Refused, Unavailable, WaitTimedOut
from contracts.run_agent import Status
from dispatch.results import JobResult
from dispatch.rounds import Round
from dispatch.sent import SentJob
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


def test_what_concerns_one_job_ends_its_wait_and_no_other(desk: Desk) -> None:
    desk.beat("PC1", "A", seconds=600)
    looks = threading.Semaphore(0)
    with desk.client() as client, ThreadPoolExecutor(1) as pool:
        ids = [job.job_id for (job,) in client.enqueue_many(many(3), lane="A")]
        waiting = pool.submit(client.wait_many, ids, 600, on_look=looks.release)
        assert looks.acquire(timeout=30)
        with client._sent._file.writing() as record:
            record.execute("DELETE FROM sent WHERE job_id = ?", (ids[0],))
        with desk.broker.client() as redis:
            redis.publish(f"fd:done:{ids[0]}", b"1")
        for job_id in ids[1:]:
            desk.answer(job_id, "PC1")
        refused, *found = waiting.result(60)
    assert isinstance(refused, Refused)
    assert all(isinstance(item, JobResult) for item in found)


def test_hosts_that_cannot_be_told_keep_no_end_from_being_found(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hosts() -> None:
        raise CouldNotCheck("the exchange with the broker failed")

    with desk.client() as client:
        ids = [job.job_id for (job,) in client.enqueue_many(many(2), lane="A")]
        envelopes = [desk.sign_result(job_id, "PC1") for job_id in ids]
        monkeypatch.setattr(client._sweeper, "hosts", hosts)
        with ThreadPoolExecutor(1) as pool:
            looks = threading.Semaphore(0)
            waiting = pool.submit(client.wait_many, ids, 600, on_look=looks.release)
            assert looks.acquire(timeout=30)
            with desk.broker.client() as redis:
                for job_id, envelope in zip(ids, envelopes, strict=True):
                    redis.set(f"fd:result:{job_id}", envelope)
            assert all(isinstance(item, JobResult) for item in waiting.result(25))


def test_a_lost_job_that_cannot_be_pushed_keeps_no_end_behind_it_from_being_found(
    desk: Desk,
) -> None:
    desk.beat("PC1", "A", seconds=600)
    looks = threading.Semaphore(0)
    with desk.client() as client, ThreadPoolExecutor(1) as pool:
        sent = client.enqueue_many(many(2), lane="A", targets=["PC1"])
        ids = [job.job_id for (job,) in sent]
        envelopes = [desk.sign_result(job_id, "PC1") for job_id in ids]
        waiting = pool.submit(client.wait_many, ids, 600, on_look=looks.release)
        assert looks.acquire(timeout=30)
        with desk.broker.client() as redis:
            redis.set(f"fd:result:{ids[1]}", envelopes[1])
            redis.config_set("maxmemory", "100kb")
            redis.lrem("rq:queue:fd.lane.A@PC1", 0, ids[0])
            pause = threading.Event()
            for _ in range(1_000):
                if client._sent.kept_result(ids[1]) is not None:
                    break
                pause.wait(0.02)
            assert client._sent.kept_result(ids[1]) is not None
            redis.config_set("maxmemory", "0")
            redis.set(f"fd:result:{ids[0]}", envelopes[0])
            redis.publish(f"fd:done:{ids[0]}", b"1")
        assert all(isinstance(item, JobResult) for item in waiting.result(60))


def test_a_lost_job_is_pushed_again_at_the_next_round_as_one_alone_is(desk: Desk) -> None:
    desk.beat("PC1", "A", seconds=600)
    ticks = threading.Semaphore(0)
    with desk.client() as client, ThreadPoolExecutor(1) as pool:
        sent = client.enqueue_many(many(2), lane="A", targets=["PC1"])
        ids = [job.job_id for (job,) in sent]

        def gather() -> None:
            client.waits.gather(ids, 600, on_look=lambda: None, on_tick=ticks.release)

        waiting = pool.submit(gather)
        assert all(ticks.acquire(timeout=30) for _ in range(2))  # the first look is over
        with desk.broker.client() as redis:
            redis.lrem("rq:queue:fd.lane.A@PC1", 0, ids[0])
        assert all(ticks.acquire(timeout=30) for _ in range(3))  # a round in between, a whole one
        assert sorted(desk.queued("fd.lane.A@PC1")) == sorted(ids)
        for job_id in ids:
            desk.answer(job_id, "PC1")
        waiting.result(60)


def test_a_round_in_which_nothing_happened_costs_the_same_for_2_20_and_600_jobs(
    desk: Desk,
) -> None:
    desk.beat("PC1", "A", seconds=600)
    costs: dict[int, int] = {}
    with desk.client() as client:
        jobs: dict[str, SentJob] = {}
        for count in (2, 20, 600):
            sent = client.enqueue_many(many(count - len(jobs)), lane="A")
            jobs |= {job.job_id: client.waits.sent(job.job_id) for (job,) in sent}
            rounds = client.waits.rounds()
            assert rounds.look(jobs, is_new=False).is_whole
            found: list[Round] = []

            def look(jobs: Any = jobs, found: list[Round] = found, rounds: Any = rounds) -> None:
                found.append(rounds.look(jobs, is_new=False))

            costs[count] = commands(desk.broker, look).total()
            assert found[0].due == []
    assert costs[20] == costs[2]
    assert costs[600] < 2 * costs[2]  # 500 at once


def test_a_sweep_of_many_jobs_that_stand_in_their_queue_costs_what_one_of_few_costs(
    desk: Desk,
) -> None:
    desk.beat("PC1", "A", seconds=600)
    costs: dict[int, int] = {}
    with desk.client() as client:
        sent = client.enqueue_many(many(2), lane="A")
        costs[2] = commands(desk.broker, client.sweep).total()
        sent += client.enqueue_many(many(48), lane="A")
        costs[50] = commands(desk.broker, client.sweep).total()
        with desk.broker.client() as redis:
            redis.delete("rq:queue:fd.lane.A")
        assert len(client.sweep()) == 50  # all of them are unknown now, and said so
    assert costs[50] == costs[2]


def test_a_round_names_what_has_an_end_or_is_in_nobodys_hands(desk: Desk) -> None:
    desk.beat("PC1", "A", seconds=600)
    with desk.client() as client:
        ids = [job.job_id for (job,) in client.enqueue_many(many(7), lane="A")]
        jobs = {job_id: client.waits.sent(job_id) for job_id in ids}
        rounds = client.waits.rounds()
        rounds.look(jobs, is_new=False)
        ended, told, lost, taken, claimed, other, _ = ids
        with desk.broker.client() as redis:
            redis.set(f"fd:result:{ended}", "whatever it is worth")
            redis.set(f"fd:receipt:{told}", "whatever it is worth")
            for job_id in (lost, taken, claimed, other):
                redis.lrem("rq:queue:fd.lane.A", 0, job_id)
            redis.rpush("fd:taken:fd.lane.A:PC1", taken)
            redis.set(f"fd:claim:{claimed}", "PC1/x")
            redis.rpush("fd:taken:fd.lane.A:PC2", *["x"] * 1_500, other)
        found = rounds.look(jobs, is_new=False)
        assert (sorted(found.due), found.is_whole) == (sorted([ended, told, lost]), False)
        assert rounds.look(jobs, is_new=True).due == ids


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
