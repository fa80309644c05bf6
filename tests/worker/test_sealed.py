"""RQ's classes, closed: against a real server, everything that is not a call of ours is poison."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from rq.job import Job
from rq.queue import Queue

from contracts import limits, naming
from contracts.ids import new_job_id
from tests.support.broker import Broker
from worker.broker.packed_call import Poisoned
from worker.sealed import SealedJob, SealedQueue, SealedWorker, find_first

QUEUE = "fd.test"
HOST = "HOSTA"


@pytest.fixture
def connection(broker: Broker) -> Iterator[redis.Redis]:
    with broker.client() as client:
        yield client


@pytest.fixture
def worker(connection: redis.Redis) -> SealedWorker:
    return SealedWorker(QUEUE, HOST, connection)


def packed(*call: Any) -> bytes:
    return zlib.compress(json.dumps(list(call)).encode())


HONEST = packed(naming.ENTRY_PATH, None, ["an envelope"], {})


def put(connection: redis.Redis, data: bytes = HONEST, job_id: str = "") -> str:
    job_id = job_id or new_job_id()
    connection.hset(f"rq:job:{job_id}", "data", data)
    connection.rpush(naming.rq_list(QUEUE), job_id)
    return job_id


def ignore(_job_id: str) -> Callable[[str], object]:
    return lambda _text: None


def test_an_honest_job_calls_the_entry_with_its_one_string(
    worker: SealedWorker, connection: redis.Redis
) -> None:
    job_id, calls = put(connection), []

    def entry_for(taken: str) -> Callable[[str], object]:
        return lambda text: calls.append((taken, text)) or "ended"

    job = worker.take(entry_for)
    assert job is not None
    assert worker.taken() == [job_id]
    assert job.perform() == "ended"
    worker.execute_job(job, worker.queues[0])
    assert calls == [(job_id, "an envelope")] * 2
    assert job._execute() == "ended"
    worker.settle(job_id)
    assert worker.taken() == []


def test_an_empty_queue_gives_nothing(worker: SealedWorker) -> None:
    assert worker.take(ignore) is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"not packed", "not_packed"),
        (HONEST[:-3], "not_packed"),
        (zlib.compress(b"\x80\x04."), "not_json"),
        (packed("os.system", None, ["true"], {}), "foreign_function"),
        (packed(["worker.entry.run_envelope"], None, ["x"], {}), "foreign_function"),
        (packed(naming.ENTRY_PATH, "an instance", ["x"], {}), "foreign_arguments"),
        (packed(naming.ENTRY_PATH, None, ["x"], {"y": 1}), "foreign_arguments"),
        (packed(naming.ENTRY_PATH, None, [], {}), "foreign_arguments"),
        (packed(naming.ENTRY_PATH, None, ["x", "y"], {}), "foreign_arguments"),
        (packed(naming.ENTRY_PATH, None, [1], {}), "foreign_arguments"),
        (packed(naming.ENTRY_PATH, None, "x", {}), "foreign_arguments"),
        (packed(naming.ENTRY_PATH, None, ["x"]), "not_a_call"),
        (zlib.compress(b"{}"), "not_a_call"),
        (zlib.compress(b" " * (limits.STORED_JOB_MAX_BYTES + 1)), "too_large"),
        (b"\0" * (limits.STORED_JOB_MAX_BYTES + 1), "too_large"),
    ],
)
def test_what_is_no_call_of_ours_is_poison_and_names_its_id(
    data: bytes, reason: str, worker: SealedWorker, connection: redis.Redis
) -> None:
    job_id = put(connection, data)
    with pytest.raises(Poisoned) as caught:
        worker.take(ignore)
    assert (caught.value.reason, caught.value.job_id) == (reason, job_id)
    worker.settle(job_id)
    put(connection)
    assert worker.take(ignore) is not None


def test_a_job_without_data_is_poison(worker: SealedWorker, connection: redis.Redis) -> None:
    connection.rpush(naming.rq_list(QUEUE), new_job_id())
    with pytest.raises(Poisoned, match="no_data"):
        worker.take(ignore)


def test_a_key_of_another_type_is_poison(worker: SealedWorker, connection: redis.Redis) -> None:
    job_id = new_job_id()
    connection.set(f"rq:job:{job_id}", "text")
    connection.rpush(naming.rq_list(QUEUE), job_id)
    with pytest.raises(Poisoned, match="not_a_hash"):
        worker.take(ignore)


def test_a_queue_of_another_type_is_poison(worker: SealedWorker, connection: redis.Redis) -> None:
    connection.set(naming.rq_list(QUEUE), "text")
    with pytest.raises(Poisoned, match="queue_unreadable"):
        worker.take(ignore)


@pytest.mark.parametrize("entry", ["", "../x", "X" * 20, "a" * 65, "a" * 1_000_000, b"\xff" * 20])
def test_an_entry_that_is_no_id_is_dropped(
    entry: str | bytes, worker: SealedWorker, connection: redis.Redis
) -> None:
    connection.rpush(naming.rq_list(QUEUE), entry)
    with pytest.raises(Poisoned, match="bad_id"):
        worker.take(ignore)
    assert connection.llen(worker.taken_key) == 0


def test_trouble_of_the_server_itself_is_not_taken_for_poison(
    worker: SealedWorker, connection: redis.Redis
) -> None:
    put(connection)
    connection.config_set("maxmemory", 1)
    with pytest.raises(redis.ResponseError):
        worker.take(ignore)
    connection.config_set("maxmemory", 0)
    assert worker.take(ignore) is not None


def test_taken_jobs_are_given_back_in_one_step_first_or_last_or_elsewhere(
    worker: SealedWorker, connection: redis.Redis
) -> None:
    one, two = put(connection), put(connection)
    assert [worker.take(ignore), worker.take(ignore)] != [None, None]
    worker.give_back(two, first=True)
    worker.give_back(one)
    assert connection.lrange(naming.rq_list(QUEUE), 0, -1) == [two.encode(), one.encode()]
    worker.take(ignore)
    worker.give_back(two, to="fd.elsewhere")
    assert connection.lrange(naming.rq_list("fd.elsewhere"), 0, -1) == [two.encode()]
    assert worker.taken() == []
    connection.rpush(worker.taken_key, "no id")
    assert worker.taken() == []


def test_a_list_of_taken_jobs_of_another_type_gives_way(
    worker: SealedWorker, connection: redis.Redis
) -> None:
    job_id = put(connection)
    connection.set(worker.taken_key, "no list")
    with pytest.raises(Poisoned, match="queue_unreadable"):
        worker.take(ignore)
    taken = worker.take(ignore)
    assert taken is not None
    assert taken.id == job_id
    connection.delete(worker.taken_key)
    connection.hset(worker.taken_key, "no", "list")
    assert worker.taken() == []
    assert not connection.exists(worker.taken_key)


def test_bad_entries_leave_the_list_of_taken_jobs(
    worker: SealedWorker, connection: redis.Redis
) -> None:
    job_id = new_job_id()
    connection.rpush(worker.taken_key, "no id", "x" * 1_000, job_id, b"\xff")
    assert worker.taken() == [job_id]
    assert connection.lrange(worker.taken_key, 0, -1) == [job_id.encode()]


def test_taken_jobs_that_may_not_be_looked_at_are_no_empty_list(
    worker: SealedWorker, connection: redis.Redis
) -> None:
    connection.execute_command("ACL", "SETUSER", "default", "-eval")
    with pytest.raises(redis.exceptions.NoPermissionError):
        worker.taken()


def test_restoring_a_whole_hash_takes_over_the_call_alone(connection: redis.Redis) -> None:
    job = SealedJob(new_job_id(), connection=connection, serializer="json")
    job.restore(
        {
            b"data": HONEST,
            b"success_callback_name": b"os.getpid",
            b"failure_callback_name": b"os.getpid",
            b"stopped_callback_name": b"os.getpid",
            b"webhooks": b'[{"url": "http://127.0.0.1:1/", "job_status": "finished"}]',
            b"meta": b"cos\ngetpid\n(tR.",
            b"retries_left": b"3",
            b"repeats_left": b"3",
            b"dependency_ids": b'["x"]',
            b"timeout": b"1",
            b"created_at": b"garbage",
            b"description": b"secret",
        }
    )
    assert (job.success_callback, job.failure_callback, job.stopped_callback) == (None, None, None)
    assert (job.webhooks, job.meta, job.retries_left, job.repeats_left) == ([], {}, None, None)
    assert (job.timeout, job._dependency_ids, job.should_retry) == (None, [], False)
    assert job.func_name == naming.ENTRY_PATH
    with pytest.raises(Poisoned, match="import_by_name"):
        _ = job.func
    with pytest.raises(Poisoned, match="no_entry"):
        job.perform()


@pytest.mark.parametrize("raw", [None, {}, {b"data": 1}])
def test_restoring_something_else_is_poison(raw: object, connection: redis.Redis) -> None:
    job = SealedJob(new_job_id(), connection=connection, serializer="json")
    with pytest.raises(Poisoned, match="no_data"):
        job.restore(raw)


def test_data_that_was_changed_after_the_restore_is_checked_again(connection: redis.Redis) -> None:
    job = SealedJob(new_job_id(), connection=connection, serializer="json")
    job.data = json.dumps(["os.getpid", None, [], {}]).encode()
    with pytest.raises(Poisoned, match="foreign_function"):
        _ = job.args


def test_rqs_own_loop_and_duties_do_nothing(worker: SealedWorker, connection: redis.Redis) -> None:
    connection.set("rq:suspended", 1)
    before = sorted(connection.keys("*"))
    worker.subscribe()
    worker.clean_registries()
    worker.run_maintenance_tasks()
    worker.check_for_suspension(burst=False)
    assert sorted(connection.keys("*")) == before
    with pytest.raises(Poisoned, match="foreign_loop"):
        worker.work(burst=True)
    foreign = Job.create("os.getpid", connection=connection)
    with pytest.raises(Poisoned, match="foreign_job"):
        worker.execute_job(foreign, Queue("x", connection=connection))


def test_the_classes_know_no_others_and_leave_the_connection_alone(
    worker: SealedWorker, connection: redis.Redis
) -> None:
    timeout = connection.connection_pool.connection_kwargs["socket_timeout"]
    assert timeout == 10
    queue = SealedQueue(QUEUE, connection)
    assert queue.job_class is SealedJob
    assert worker.job_class is SealedJob
    assert type(worker.queues[0]) is SealedQueue
    assert "pickle" not in repr(worker.serializer)


def test_a_look_at_several_queues_finds_the_first_that_has_a_job(
    worker: SealedWorker, connection: redis.Redis
) -> None:
    other = SealedWorker("fd.other", HOST, connection)
    assert find_first([other, worker]) is None
    job_id = put(connection)
    found = find_first([other, worker])
    assert found is not None
    assert found.worker is worker
    assert worker.opened(found, ignore).id == job_id
    assert (worker.taken(), other.taken()) == ([job_id], [])


def test_a_queue_that_is_none_is_said_of_that_one_and_those_behind_it_are_served(
    worker: SealedWorker, connection: redis.Redis
) -> None:
    other = SealedWorker("fd.other", HOST, connection)
    connection.set(other.queue_key, "text")
    job_id = put(connection)
    found = find_first([other, worker])
    assert found is not None
    assert found.worker is other
    with pytest.raises(Poisoned, match="queue_unreadable"):
        other.opened(found, ignore)
    found = find_first([worker])
    assert found is not None
    assert worker.opened(found, ignore).id == job_id
