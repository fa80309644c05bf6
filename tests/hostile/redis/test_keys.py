"""Somebody who can write Redis puts something else where our keys belong: the listener goes on, its
memory stays bounded, and one bad entry costs the good ones no time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from contracts import naming
from contracts.ids import new_job_id
from tests.support.broker import Broker, running_broker
from tests.support.fleet import wait_until
from tests.support.hosts import LANE, Host, listening_host

KINDS: dict[str, Callable[[redis.Redis, str], Any]] = {
    "string": lambda client, key: client.set(key, "\x1b[31mno"),
    "list": lambda client, key: client.rpush(key, "no"),
    "hash": lambda client, key: client.hset(key, "no", "no"),
    "set": lambda client, key: client.sadd(key, "no"),
    "sorted set": lambda client, key: client.zadd(key, {"no!": 1}),
    "stream": lambda client, key: client.xadd(key, {"no": "no"}),
}
LANE_AUD = naming.lane_audience(LANE)
LANE_QUEUE = naming.lane_queue(LANE)
# Nothing waits longer than the looks of a listener: one second each, and some for the runs.
SOON_S = 60.0  # a machine under heavy load takes a quarter of it


@pytest.fixture(scope="module")
def _broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as server:
        yield server


@pytest.fixture(scope="module")
def _host(_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with listening_host(tmp_path_factory.mktemp("fleet"), _broker) as host:
        yield host


@pytest.fixture
def host(_host: Host) -> Iterator[Host]:
    """The listener of this module on a broker that holds nothing of an earlier test."""
    with _host.broker.client() as client:
        client.flushall()
    yield _host
    with _host.broker.client() as client:
        client.flushall()


def plant(client: redis.Redis, key: str, kind: str) -> None:
    client.delete(key)
    KINDS[kind](client, key)


def push_parked(host: Host, *, aud: str, plant_at: Callable[[str], str], kind: str, **job: Any):
    """Queue an honest job after something else was planted at one of its keys."""
    job_id = host.push(host.job(aud=aud, **job), queue="parked")
    queue = LANE_QUEUE if aud == LANE_AUD else host.queue_name
    with host.broker.client() as client:
        plant(client, plant_at(job_id), kind)
        client.lmove(naming.rq_list("parked"), naming.rq_list(queue), "RIGHT", "RIGHT")
        client.publish(naming.bell_channel(queue), b"1")
    return job_id


def runs_both_kinds_of_job(host: Host) -> None:
    for aud in (host.aud, LANE_AUD):
        result = host.result(host.push(host.job(aud=aud)), seconds=SOON_S)
        assert result.status == "completed", f"{result}\n{host.log[-3000:]}"


FLEET_KEYS: dict[str, Callable[[Host], str]] = {
    "dead letters": lambda _host: naming.dead_letters(),
    "jobs index": lambda _host: naming.jobs_index(),
    "hosts index": lambda _host: naming.hosts_index(),
    "heartbeat": lambda host: naming.host_key(host.name),
    "taken list of the host's queue": lambda host: naming.taken_list(host.queue_name, host.name),
    "taken list of the lane's queue": lambda host: naming.taken_list(LANE_QUEUE, host.name),
    "RQ's queues": lambda _host: "rq:queues",
}


@pytest.mark.parametrize("name", FLEET_KEYS)
def test_another_type_at_a_key_of_the_fleet_stops_no_job(name: str, host: Host) -> None:
    for kind in KINDS:
        expired = host.job()
        expired |= {"iat": expired["iat"] - 9_000, "exp": expired["iat"] - 8_000}
        with host.broker.client() as client:
            plant(client, FLEET_KEYS[name](host), kind)
            client.rpush(naming.rq_list(LANE_QUEUE), "not an id")
        host.push(expired)
        for aud in (host.aud, LANE_AUD):
            payload = host.payload(repo="/nowhere")
            result = host.result(host.push(host.job(aud=aud, payload=payload)), seconds=SOON_S)
            assert result.status == "failed", kind
    runs_both_kinds_of_job(host)


JOB_KEYS: dict[str, Callable[[str], str]] = {
    "what is shown": naming.job_key,
    "claim": naming.claim_key,
    "refusals": naming.refusals_key,
    "result": naming.result_key,
    "other results": naming.other_results_key,
}


@pytest.mark.parametrize("repo", ["", "/nowhere"], ids=["runs", "declined"])
@pytest.mark.parametrize("aud", [LANE_AUD, "host:HOSTA"])
def test_another_type_at_a_key_of_a_job_stops_neither_it_nor_the_next(
    aud: str, repo: str, host: Host
) -> None:
    payload = host.payload(**({"repo": repo} if repo else {}))
    kinds = ("list", "hash") if not repo else ("string", "list", "hash", "sorted set")
    planted = {
        (name, kind): push_parked(host, aud=aud, plant_at=key, kind=kind, payload=payload)
        for name, key in JOB_KEYS.items()
        for kind in kinds
        # A text at the claim's key is a claim: it holds the job for whoever it names.
        if (name, kind) != ("claim", "string")
    }
    for what, job_id in planted.items():
        wait_until(lambda job=job_id: f"published job={job}" in host.log, str(what), SOON_S)
    runs_both_kinds_of_job(host)
    assert not [what for what, job in planted.items() if f"postponed job={job}" in host.log]


@pytest.mark.parametrize("kind", ["string", "list", "hash"])
def test_a_replay_over_another_type_stops_nothing(kind: str, host: Host) -> None:
    claims = host.job()
    job_id = host.push(claims)
    host.result(job_id)
    host.published(job_id)
    with host.broker.client() as client:
        for key in (f"rq:job:{job_id}", naming.job_key(job_id)):
            client.delete(key)
        client.delete(naming.result_key(job_id))
        host.push(claims, queue="parked")
        plant(client, naming.job_key(job_id), kind)
        queue = naming.rq_list(host.queue_name)
        client.lmove(naming.rq_list("parked"), queue, "RIGHT", "RIGHT")
    runs_both_kinds_of_job(host)


def test_a_hundred_bad_entries_delay_the_next_job_by_no_second_each(host: Host) -> None:
    with host.broker.client() as client:
        queue = naming.rq_list(host.queue_name)
        client.rpush(queue, *["not an id", *[new_job_id() for _ in range(50)]] * 2)
    started = time.monotonic()
    host.run_honest_job()
    assert time.monotonic() - started < SOON_S


def test_lists_and_hashes_without_end_cost_no_memory(broker: Broker, tmp_path: Path) -> None:
    fill = """
    for i = 1, tonumber(ARGV[2]) do
        if ARGV[1] == 'list' then redis.call('RPUSH', KEYS[1], string.format('%020d', i))
        else redis.call('HSET', KEYS[1], 'H' .. i, string.rep('x', 100)) end
    end
    """
    with listening_host(tmp_path, broker) as host, broker.client() as client:
        taken = naming.taken_list(host.queue_name, host.name)
        client.eval(fill, 1, taken, "list", "300000")
        client.rpush(naming.taken_list(LANE_QUEUE, host.name), "x" * 50_000_000)
        payload = host.payload(repo="/nowhere")
        job_id = host.push(host.job(aud=LANE_AUD, payload=payload), queue="parked")
        client.eval(fill, 1, naming.refusals_key(job_id), "hash", "100000")
        client.hset(naming.refusals_key(job_id), "HUGE", "x" * 50_000_000)
        client.lmove(naming.rq_list("parked"), naming.rq_list(LANE_QUEUE), "RIGHT", "RIGHT")
        host.result(job_id)
        host.kill()
        host.start()  # a start looks at what an earlier one had taken
        host.run_honest_job()
        assert host.process is not None
        status = Path(f"/proc/{host.process.pid}/status").read_text()
    peak_kb = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    assert int(peak_kb) * 1024 < 150 * 1024 * 1024
