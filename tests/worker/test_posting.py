"""The steps of a job at the broker, against a real server that others write to as well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from contracts import limits, naming
from contracts.clock import ManualClock
from contracts.ids import new_job_id
from tests.support.broker import Broker
from worker.broker.board import Board

TAKEN = naming.taken_list("fd.test", "HOSTA")


@pytest.fixture
def connection(broker: Broker) -> Iterator[redis.Redis]:
    with broker.client() as client:
        yield client


@pytest.fixture
def board(connection: redis.Redis) -> Board:
    return Board(connection, "HOSTA", ManualClock())


def rq_hash(job_id: str) -> str:
    return f"rq:job:{job_id}"


def test_a_started_job_is_shown_and_no_longer_taken(board: Board, connection: redis.Redis) -> None:
    job_id, other = new_job_id(), new_job_id()
    connection.rpush(TAKEN, other, job_id)
    connection.hset(rq_hash(job_id), "data", "x")
    connection.hset(naming.job_key(job_id), "lane", "L")
    assert board.show_started(job_id, TAKEN, settle=True)
    assert connection.lrange(TAKEN, 0, -1) == [other.encode()]
    shown = connection.hgetall(naming.job_key(job_id))
    assert shown == {
        b"lane": b"L",
        b"state": b"started",
        b"host": b"HOSTA",
        b"updated_at": str(int(ManualClock().wall())).encode(),
        b"reason": b"",
    }
    most = limits.RESULT_TTL_S + limits.JOB_TTL_MAX_S
    assert 0 < connection.ttl(naming.job_key(job_id)) <= most
    assert connection.hmget(rq_hash(job_id), "status", "worker_name") == [b"started", b"HOSTA"]


def test_a_job_that_may_yet_be_declined_stays_taken(board: Board, connection: redis.Redis) -> None:
    job_id = new_job_id()
    connection.rpush(TAKEN, job_id)
    assert not board.show_started(job_id, TAKEN, settle=False)
    assert connection.lrange(TAKEN, 0, -1) == [job_id.encode()]
    assert connection.hget(naming.job_key(job_id), "state") == b"started"


def test_a_list_of_another_type_is_no_settled_job_and_it_is_shown_all_the_same(
    board: Board, connection: redis.Redis
) -> None:
    job_id = new_job_id()
    connection.set(TAKEN, "text")
    assert not board.show_started(job_id, TAKEN, settle=True)
    assert connection.hget(naming.job_key(job_id), "state") == b"started"


@pytest.mark.parametrize("is_job", [True, False])
def test_a_first_result_is_stored_announced_and_shown(
    is_job: bool, board: Board, connection: redis.Redis
) -> None:
    job_id = new_job_id()
    if is_job:
        connection.hset(rq_hash(job_id), "data", "x")
    with connection.pubsub(ignore_subscribe_messages=True) as subscription:
        subscription.subscribe(naming.done_channel(job_id))
        subscription.get_message(timeout=5)
        assert board.deliver(job_id, "a signed result", "completed")
        assert subscription.get_message(timeout=5) is not None
    assert connection.get(naming.result_key(job_id)) == b"a signed result"
    assert 0 < connection.ttl(naming.result_key(job_id)) <= limits.RESULT_TTL_S
    shown = connection.hmget(naming.job_key(job_id), "state", "reason", "host")
    assert shown == [b"done", b"completed", b"HOSTA"]
    if is_job:
        assert connection.hget(rq_hash(job_id), "status") == b"finished"
        assert 0 < connection.ttl(rq_hash(job_id)) <= 600
    else:
        assert not connection.exists(rq_hash(job_id)), "an emptied broker gets no half of one back"


@pytest.mark.parametrize("there", ["the same", "another"])
def test_where_a_result_stands_already_nothing_is_done(
    there: str, board: Board, connection: redis.Redis
) -> None:
    job_id = new_job_id()
    connection.set(naming.result_key(job_id), there)
    assert not board.deliver(job_id, "the same", "completed")
    assert connection.get(naming.result_key(job_id)) == there.encode()
    assert connection.ttl(naming.result_key(job_id)) == -1
    assert not connection.exists(naming.job_key(job_id))


def test_a_key_of_another_type_gives_way_to_what_is_shown_and_rqs_is_left(
    board: Board, connection: redis.Redis
) -> None:
    job_id = new_job_id()
    connection.set(naming.job_key(job_id), "text")
    connection.set(rq_hash(job_id), "text")
    board.show_started(job_id, TAKEN, settle=False)
    assert connection.hget(naming.job_key(job_id), "state") == b"started"
    connection.unlink(naming.job_key(job_id))
    connection.rpush(naming.job_key(job_id), "an item")
    assert board.deliver(job_id, "a signed result", "failed")
    assert connection.hget(naming.job_key(job_id), "reason") == b"failed"
    assert connection.get(rq_hash(job_id)) == b"text"
