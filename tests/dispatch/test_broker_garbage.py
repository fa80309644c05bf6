"""Somebody else writes to the broker: the verbs and the client go on, in bounds, and show harmless
text."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
import redis

from contracts import naming
from contracts.errors import CouldNotCheck
from contracts.run_agent import Status
from dispatch.queue import FleetQueue, Pushed
from tests.dispatch.conftest import Said
from tests.dispatch.desk import PAYLOAD, Desk

KINDS: dict[str, Callable[[redis.Redis, str], Any]] = {
    "string": lambda client, key: client.set(key, "no"),
    "list": lambda client, key: client.rpush(key, "no"),
    "hash": lambda client, key: client.hset(key, "no", "no"),
    "sorted set": lambda client, key: client.zadd(key, {"no!": 1}),
}
JOB = "0123456789abcdef0123"


def plant(desk: Desk, key: str, kind: str) -> None:
    with desk.broker.client() as client:
        client.delete(key)
        KINDS[kind](client, key)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "key",
    [
        naming.jobs_index(),
        naming.hosts_index(),
        naming.data_mark(),
        "fd:host:PC1",
        "fd:farewell:PC1",
    ],
)
def test_another_type_at_a_key_of_the_fleet_stops_no_verb(
    key: str, kind: str, desk: Desk, say: Callable[..., Said]
) -> None:
    desk.beat("PC1", "A")
    with desk.client() as client:
        first = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])[0]
    plant(desk, key, kind)
    jobs = say("jobs", "--json", environ=desk.environ)
    assert jobs.code == 0
    assert [row["jobId"] for row in json.loads(jobs.out)["jobs"]] == [first.job_id]
    hosts = say("hosts", "--json", environ=desk.environ)
    assert {row["host"] for row in json.loads(hosts.out)["hosts"]} == {"PC1", "PC2"}
    with desk.client() as client:
        assert client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])[0].pushed is Pushed.QUEUED


@pytest.mark.parametrize("key", ["rq:queues", naming.jobs_index()])
def test_a_push_that_could_only_not_be_listed_is_a_push(key: str, desk: Desk) -> None:
    for kind in ("string", "hash"):
        plant(desk, key, kind)
        with desk.client() as client:
            job = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])[0]
        assert job.pushed is Pushed.QUEUED
        assert desk.queued(naming.host_queue("A", "PC1"))[-1] == job.job_id


def test_a_queue_of_another_type_refuses_a_push_whole(desk: Desk) -> None:
    queue = naming.rq_list(naming.host_queue("A", "PC1"))
    plant(desk, queue, "string")
    with desk.client() as client:
        with pytest.raises(CouldNotCheck, match="something else"):
            client.enqueue_agent(PAYLOAD, lane="A", targets=["PC2", "PC1"])
        with desk.broker.client() as connection:
            assert {*connection.keys("*")} - {b"fd:data"} == {queue.encode()}


@pytest.mark.parametrize("score", ["inf", "-inf", "1e300", "0"])
def test_a_host_that_was_seen_at_no_time_there_is_breaks_nothing(
    score: str, desk: Desk, say: Callable[..., Said]
) -> None:
    with desk.broker.client() as client:
        client.zadd(naming.hosts_index(), {"PC1": float(score)})
        client.zadd(naming.jobs_index(), {JOB: float(score)})
    with desk.client() as client:
        job = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])[0]
    assert "host_lost" in job.note
    for words in (("hosts",), ("hosts", "--json"), ("jobs",), ("jobs", "--json")):
        assert say(*words, environ=desk.environ).code == 0


def test_huge_values_are_left_in_the_broker(desk: Desk) -> None:
    huge = "x" * 20_000_000
    with desk.client() as client:
        job = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])[0]
        with desk.broker.client() as connection:
            names = ("state", "reason", "host", "lane")
            connection.hset(naming.job_key(job.job_id), mapping=dict.fromkeys(names, huge))
            connection.zadd(naming.jobs_index(), {f"{n}{huge}": 1e12 + n for n in range(3)})
            connection.zadd(naming.hosts_index(), {f"{n}{huge}": 1e12 + n for n in range(3)})
            connection.set(naming.host_key("PC1"), huge)
        tracemalloc.start()
        try:
            assert [view.job_id for view in client.jobs()] == [job.job_id]
            client.hosts()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 15_000_000


def test_a_status_that_no_signature_holds_for_is_not_shown(desk: Desk) -> None:
    with desk.client() as client:
        mine = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])[0].job_id
        with desk.broker.client() as connection:
            for job_id in (mine, JOB):
                connection.hset(naming.job_key(job_id), "state", "completed")
                connection.zadd(naming.jobs_index(), {job_id: 1})
        assert {view.state for view in client.jobs()} == {"unknown"}
        desk.answer(mine, "PC1", Status.COMPLETED)  # the control
        assert {view.job_id: view.state for view in client.jobs()}[mine] == "completed"


def test_a_result_is_found_behind_garbage_of_any_type(desk: Desk) -> None:
    for kind in KINDS:
        with desk.client() as client:
            job_id = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])[0].job_id
            plant(desk, naming.result_key(job_id), kind)
            plant(desk, naming.other_results_key(job_id), kind)
            desk.answer(job_id, "PC1")
            found = client.result(job_id)
            assert found is not None
            assert found.status is Status.COMPLETED
            assert client.wait(job_id, 5).status is Status.COMPLETED


def test_what_is_shown_is_read_whole_when_it_is_small(desk: Desk) -> None:
    queue = FleetQueue.connect(desk.broker.url)
    queue.show(JOB, {"state": "started", "reason": "ä" * 300})
    assert queue.shown(JOB) == {"state": "started", "reason": "ä" * 300}
    queue.close()
