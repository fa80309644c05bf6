from __future__ import annotations

import json
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis
from redis import exceptions

from contracts.errors import CouldNotCheck, InvalidRequest, Unavailable, WaitTimedOut
from dispatch.queue import FleetQueue, Outgoing, Pushed, StoredAs
from dispatch.queue.link import translated
from tests.support.broker import Broker, running_broker

JOB = "a" * 20
OTHER = "b" * 20
QUEUE = "fd.lane.A"


@pytest.fixture
def queue(broker: Broker) -> FleetQueue:
    return FleetQueue.connect(broker.url)


def _list(broker: Broker, key: str = f"rq:queue:{QUEUE}") -> list[bytes]:
    with broker.client() as client:
        found: list[bytes] = client.lrange(key, 0, -1)  # type: ignore[assignment]
        return found


def test_a_pushed_job_has_the_shapes_of_the_wire(broker: Broker, queue: FleetQueue) -> None:
    from rq.job import Job
    from rq.serializers import JSONSerializer

    with broker.client() as client, client.pubsub() as bell:
        bell.subscribe(f"fd:bell:{QUEUE}")
        bell.get_message(timeout=5)
        assert queue.push("envelope", JOB, QUEUE, {"lane": "A", "state": "queued"}) is Pushed.QUEUED
        assert bell.get_message(timeout=5)["type"] == "message"
        job = Job.fetch(JOB, connection=client, serializer=JSONSerializer)
        assert (job.func_name, job.args, job.kwargs) == (
            "worker.entry.run_envelope",
            ["envelope"],
            {},
        )
        assert (job.timeout, job.origin, job.retries_left, job.meta) == (-1, QUEUE, None, {})
        assert not job.success_callback
        assert not job.failure_callback
        assert "envelope" not in (job.description or "")
        assert 0 < client.ttl(f"rq:job:{JOB}") <= 8 * 86_400
        assert client.zscore("fd:jobs", JOB) is not None
        assert client.sismember("rq:queues", f"rq:queue:{QUEUE}")
        assert client.ttl(f"fd:job:{JOB}") > 0
    assert queue.shown(JOB) == {"jti": JOB, "lane": "A", "state": "queued"}
    assert _list(broker) == [JOB.encode()]


@pytest.mark.parametrize(
    ("text", "least", "most"), [("e" * 5_000, 5_000, 5_200), ("e" * 20_000, 1, 1_000)]
)
def test_a_small_job_is_stored_as_it_is_and_a_large_one_is_packed(
    broker: Broker, queue: FleetQueue, text: str, least: int, most: int
) -> None:
    queue.push(text, JOB, QUEUE, {})
    with broker.client() as client:
        data: bytes = client.hget(f"rq:job:{JOB}", "data")  # type: ignore[assignment]
    assert least <= len(data) <= most
    assert json.loads(zlib.decompress(data)) == ["worker.entry.run_envelope", None, [text], {}]


def test_a_job_is_pushed_once_whoever_repeats_it(broker: Broker, queue: FleetQueue) -> None:
    with ThreadPoolExecutor(16) as pool:
        states = list(pool.map(lambda _: queue.push("e", JOB, QUEUE, {}), range(50)))
    assert states.count(Pushed.QUEUED) == 1
    assert set(states) == {Pushed.QUEUED, Pushed.ALREADY_THERE}
    assert _list(broker) == [JOB.encode()]


def test_a_job_that_was_taken_is_not_pushed_again(broker: Broker, queue: FleetQueue) -> None:
    queue.push("e", JOB, QUEUE, {})
    with broker.client() as client:
        client.lpop(f"rq:queue:{QUEUE}")
    assert queue.push("e", JOB, QUEUE, {}) is Pushed.ALREADY_THERE
    assert _list(broker) == []


def test_a_connection_that_broke_meanwhile_costs_no_push(broker: Broker, queue: FleetQueue) -> None:
    queue.push("envelope", JOB, QUEUE, {})
    with broker.client() as client:
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    assert queue.push("envelope", OTHER, QUEUE, {}) is Pushed.QUEUED
    assert _list(broker) == [JOB.encode(), OTHER.encode()]


def test_a_look_that_is_forbidden_leaves_no_answer_for_the_next_one(
    broker: Broker, queue: FleetQueue
) -> None:
    with broker.client() as client:
        client.execute_command("ACL", "SETUSER", "default", "-exists")
        with pytest.raises(Unavailable, match="role"):
            queue.push("envelope", JOB, QUEUE, {})
        client.execute_command("ACL", "SETUSER", "default", "+exists")
    assert queue.push("envelope", JOB, QUEUE, {}) is Pushed.QUEUED
    assert queue.push("envelope", JOB, QUEUE, {}) is Pushed.ALREADY_THERE


def test_a_finished_job_is_said_to_be_finished(broker: Broker, queue: FleetQueue) -> None:
    queue.store_result(JOB, "result")
    assert queue.push("e", JOB, QUEUE, {}) is Pushed.FINISHED
    assert _list(broker) == []


def test_after_the_broker_lost_everything_a_job_is_pushed_anew(
    broker: Broker, queue: FleetQueue
) -> None:
    queue.push("e", JOB, QUEUE, {})
    with broker.client() as client:
        client.flushall()
    assert queue.push("e", JOB, QUEUE, {}) is Pushed.QUEUED
    assert _list(broker) == [JOB.encode()]


def test_several_jobs_are_queued_together(broker: Broker, queue: FleetQueue) -> None:
    jobs = [
        Outgoing(job_id=job, queue_name=f"{QUEUE}@{job[0]}", envelope_text=job, shown={})
        for job in (JOB, OTHER)
    ]
    assert queue.push_all(jobs) == [Pushed.QUEUED, Pushed.QUEUED]
    assert _list(broker, f"rq:queue:{QUEUE}@a") == [JOB.encode()]
    assert set(queue.recent_job_ids(10)) == {JOB, OTHER}


def test_what_is_no_job_id_is_refused_before_any_key_is_built(
    broker: Broker, queue: FleetQueue
) -> None:
    for bad in ("", "A" * 20, "a" * 33, "../../../../etc/x", "a*" * 10):
        with pytest.raises(InvalidRequest):
            queue.push("e", bad, QUEUE, {})
        with pytest.raises(InvalidRequest):
            queue.store_result(bad, "x")
        with pytest.raises(InvalidRequest):
            queue.result_texts(bad)
    with broker.client() as client:
        assert client.dbsize() == 0


def test_a_full_broker_fails_closed_with_a_clear_error(broker: Broker, queue: FleetQueue) -> None:
    with broker.client() as client:
        client.config_set("maxmemory", "100kb")  # less than it holds already
    with pytest.raises(Unavailable, match=r"is full \(maxmemory\)") as refused:
        queue.push("secret brief", JOB, QUEUE, {})
    assert "secret brief" not in str(refused.value)
    with pytest.raises(Unavailable, match="maxmemory"):
        queue.store_result(JOB, "result")
    assert _list(broker) == []
    assert queue.shown(JOB) == {}


def test_no_broker_names_the_url_without_password_and_the_remedy(broker: Broker) -> None:
    broker.stop()
    url = f"redis://:hunter2@127.0.0.1:{broker.port}/0"
    with pytest.raises(Unavailable) as refused:
        FleetQueue.connect(url).push("e", JOB, QUEUE, {})
    text = str(refused.value)
    assert f"redis://:***@127.0.0.1:{broker.port}/0" in text
    assert "hunter2" not in text
    assert "fleet-dispatch broker" in text
    assert "FLEET_DISPATCH_REDIS_URL" in text


def test_a_wrong_password_is_told_from_no_broker(tmp_path: Path) -> None:
    with running_broker(tmp_path / "b", password="right") as server:
        FleetQueue.connect(server.url).ping()
        for url in (server.url.replace("right", "wrong"), server.url.replace(":right@", "")):
            with pytest.raises(Unavailable, match="password") as refused:
                FleetQueue.connect(url).ping()
            assert "wrong" not in str(refused.value)


def test_a_server_that_accepts_and_says_nothing_is_given_up(broker: Broker) -> None:
    broker.suspend()
    try:
        with pytest.raises(Unavailable, match="no broker answers"):
            FleetQueue(
                redis.Redis.from_url(broker.url, socket_timeout=0.3, socket_connect_timeout=0.3),
                broker.url,
            ).ping()
    finally:
        broker.resume()


def test_a_key_of_ours_that_holds_something_else_is_could_not_check(
    broker: Broker, queue: FleetQueue
) -> None:
    with broker.client() as client:
        client.set("rq:queue:fd.lane.A", "x")
    with pytest.raises(CouldNotCheck, match="something else"):
        queue.push("envelope", JOB, "fd.lane.A", {})


def test_the_first_result_keeps_its_place_and_others_stand_beside_it(queue: FleetQueue) -> None:
    assert queue.store_result(JOB, "one") is StoredAs.FIRST
    assert queue.store_result(JOB, "one") is StoredAs.SAME
    assert queue.store_result(JOB, "two") is StoredAs.OTHER
    assert queue.store_result(JOB, "two") is StoredAs.SAME
    assert queue.result_texts(JOB) == ["one", "two"]


def test_results_are_kept_for_seven_days(broker: Broker, queue: FleetQueue) -> None:
    queue.store_result(JOB, "one")
    queue.store_result(JOB, "two")
    with broker.client() as client:
        for key in (f"fd:result:{JOB}", f"fd:result:{JOB}:others"):
            assert 7 * 86_400 - 60 < client.ttl(key) <= 7 * 86_400


@pytest.mark.parametrize("kind", ["list", "hash", "huge"])
def test_planted_garbage_never_hides_a_result(broker: Broker, queue: FleetQueue, kind: str) -> None:
    with broker.client() as client:
        if kind == "list":
            client.rpush(f"fd:result:{JOB}", "x")
        elif kind == "hash":
            client.hset(f"fd:result:{JOB}", "a", "b")
        else:
            client.set(f"fd:result:{JOB}", "x" * (30 * 1024 * 1024))
        client.set(f"fd:result:{JOB}:others", "garbage")
    assert queue.store_result(JOB, "real") is StoredAs.OTHER
    assert queue.result_texts(JOB)[-1] == "real"


def test_a_list_of_others_that_is_too_large_is_not_read(broker: Broker, queue: FleetQueue) -> None:
    with broker.client() as client:
        for _ in range(2):
            client.rpush(f"fd:result:{JOB}:others", "x" * (20 * 1024 * 1024))
    assert queue.result_texts(JOB) == []


def test_a_waiter_is_woken_when_the_result_is_stored(broker: Broker, queue: FleetQueue) -> None:
    looks: list[list[str]] = []

    def look(texts: list[str]) -> str | None:
        looks.append(texts)
        if len(looks) == 2:  # the second look is after the subscription stands
            threading.Thread(
                target=lambda: FleetQueue.connect(broker.url).store_result(JOB, "done")
            ).start()
        return texts[0] if texts else None

    assert queue.wait_result(JOB, look, 4.0) == "done"
    assert len(looks) <= 4  # no polling


def test_a_forged_announcement_only_wakes(broker: Broker, queue: FleetQueue) -> None:
    with broker.client() as client, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(queue.wait_result, JOB, lambda texts: texts or None, 1.0)
        client.publish(f"fd:done:{JOB}", "done!")
        with pytest.raises(WaitTimedOut, match=JOB):
            waiting.result(10)


def test_a_wait_outlives_a_restart_of_the_broker(broker: Broker, queue: FleetQueue) -> None:
    looked = threading.Event()

    def look(texts: list[str]) -> str | None:
        looked.set()
        return texts[0] if texts else None

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(queue.wait_result, JOB, look, 60.0)
        assert looked.wait(10)
        broker.restart()
        FleetQueue.connect(broker.url).store_result(JOB, "done")
        assert waiting.result(60) == "done"


def test_a_wait_that_ends_while_the_broker_is_away_says_so(
    broker: Broker, queue: FleetQueue
) -> None:
    looked = threading.Event()

    def look(texts: list[str]) -> None:
        looked.set()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(queue.wait_result, JOB, look, 3.0)
        assert looked.wait(10)
        broker.stop()
        with pytest.raises(Unavailable, match="no broker answers"):
            waiting.result(30)


def test_what_is_shown_is_written_and_read_back(broker: Broker, queue: FleetQueue) -> None:
    queue.show(JOB, {"state": "started", "host": "PC1", "unknown": "x"})
    assert queue.shown(JOB) == {"state": "started", "host": "PC1"}
    with broker.client() as client:
        client.set(f"fd:job:{OTHER}", "not a hash")
    assert queue.shown(OTHER) == {}


def test_heartbeats_are_read_for_well_formed_names_alone(broker: Broker, queue: FleetQueue) -> None:
    with broker.client() as client:
        client.zadd("fd:hosts", {"PC1": 10.0, "PC2": 20.0, "bad name": 30.0, "LIST": 5.0})
        client.set("fd:host:PC1", "{}")
        client.rpush("fd:host:LIST", "x")
        client.rpush("fd:farewell:LIST", "x")
        client.set("fd:farewell:PC2", "19" * 100)
    assert queue.heartbeats() == [
        ("PC2", 20.0, None, "191919191919191"),
        ("PC1", 10.0, "{}", None),
        ("LIST", 5.0, None, None),
    ]


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (exceptions.ReadOnlyError("x"), Unavailable, "read-only replica"),
        (exceptions.ResponseError("MISCONF Errors writing to the AOF"), Unavailable, "its disk"),
        (exceptions.ResponseError("NOAUTH Authentication required."), Unavailable, "password"),
        (exceptions.ResponseError("ERR secret payload"), CouldNotCheck, "answered with an error"),
        (exceptions.InvalidResponse("secret payload"), CouldNotCheck, "exchange"),
        (ConnectionResetError("secret payload"), Unavailable, "no broker answers"),
        (exceptions.NoPermissionError("secret payload"), Unavailable, "role"),
    ],
)
def test_each_error_of_the_broker_is_told_in_our_words(
    error: Exception, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words) as told, translated("redis://:pw@h:1/0"):
        raise error
    assert "secret payload" not in str(told.value)
    assert ":pw@" not in str(told.value)
    assert told.value.__cause__ is error


def test_a_ring_wakes_who_looks_at_the_queue(broker: Broker, queue: FleetQueue) -> None:
    with broker.client() as client, client.pubsub() as bell:
        bell.subscribe(f"fd:bell:{QUEUE}")
        bell.get_message(timeout=5)
        queue.ring(QUEUE)
        assert bell.get_message(timeout=5)["type"] == "message"
