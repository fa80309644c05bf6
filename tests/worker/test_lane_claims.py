"""Claims of a lane's jobs, against a real server that others write to as well."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import redis

from contracts import naming
from contracts.clock import ManualClock
from tests.support.broker import Broker
from worker.broker.lane_claims import LaneClaims

JOB = "a" * 20


@pytest.fixture
def connection(broker: Broker) -> Iterator[redis.Redis]:
    with broker.client() as client:
        yield client


def claims(connection: redis.Redis, host: str, instance: str = "1") -> LaneClaims:
    return LaneClaims(connection, host, ManualClock(), instance=instance)


def test_the_first_host_has_it_until_it_gives_it_back(connection: redis.Redis) -> None:
    one, two = claims(connection, "ONE"), claims(connection, "TWO")
    exp = int(ManualClock().wall()) + 100
    assert one.claim(JOB, exp=exp) is None
    assert one.claim(JOB, exp=exp) is None, "a host may ask again after a crash"
    assert two.claim(JOB, exp=exp) == "ONE"
    two.release(JOB)
    assert two.claim(JOB, exp=exp) == "ONE", "only its owner gives it back"
    one.release(JOB)
    assert two.claim(JOB, exp=exp) is None
    assert 0 < connection.ttl(naming.claim_key(JOB)) <= 340


def test_a_namesake_with_a_journal_of_its_own_does_not_have_what_we_claimed(
    connection: redis.Redis,
) -> None:
    exp = int(ManualClock().wall()) + 100
    assert claims(connection, "ONE").claim(JOB, exp=exp) is None
    assert claims(connection, "ONE", "2").claim(JOB, exp=exp) == "ONE"
    assert claims(connection, "ONE").claim(JOB, exp=exp) is None, "the control: the same journal"


def test_refusals_are_shown_cut_and_clean(connection: redis.Redis) -> None:
    one = claims(connection, "ONE")
    one.refuse(JOB, "x" * 1_000)
    connection.hset(naming.refusals_key(JOB), "TWO", b"\x1b[31mred\n\xff")
    connection.hset(naming.refusals_key(JOB), "no name!", "reason")
    refusals = {item.host: item.reason for item in one.refusals(JOB)}
    assert set(refusals) == {"ONE", "TWO"}
    assert len(refusals["ONE"]) == 200
    assert refusals["TWO"].isprintable()


def test_other_living_hosts_of_the_lane_are_found_whatever_else_stands_there(
    connection: redis.Redis,
) -> None:
    beats = {
        "ALIVE": json.dumps({"lanes": ["L"]}),
        "ELSEWHERE": json.dumps({"lanes": ["M"]}),
        "SELF": json.dumps({"lanes": ["L"]}),
        "GARBAGE": "{",
        "LIST": "[]",
        "ODD": json.dumps({"lanes": "L"}),
        "HUGE": json.dumps({"lanes": ["L"], "x": "x" * 100_000}),
        "no name!": json.dumps({"lanes": ["L"]}),
    }
    for host, beat in beats.items():
        connection.set(naming.host_key(host), beat)
    connection.zadd(naming.hosts_index(), dict.fromkeys([*beats, "SILENT"], 1))
    assert claims(connection, "SELF").others_alive("L") == {"ALIVE"}


def no_cancel(_job_id: str) -> None:
    raise AssertionError("no cancel is there")


def test_a_job_that_nobody_took_back_is_taken_without_a_closer_look(
    connection: redis.Redis,
) -> None:
    one, two = claims(connection, "ONE"), claims(connection, "TWO")
    exp = int(ManualClock().wall()) + 100
    assert one.take(JOB, exp=exp, look_for_cancel=no_cancel) is None
    assert one.take(JOB, exp=exp, look_for_cancel=no_cancel) is None, "ours after a crash, too"
    assert two.take(JOB, exp=exp, look_for_cancel=no_cancel) == "ONE"
    assert 0 < connection.ttl(naming.claim_key(JOB)) <= 340


def test_a_cancel_is_looked_at_before_anything_is_claimed(connection: redis.Redis) -> None:
    one, exp, looked = claims(connection, "ONE"), int(ManualClock().wall()) + 100, []
    connection.set(naming.cancel_key(JOB), "a cancel")

    def broken(job_id: str) -> None:
        looked.append((job_id, connection.exists(naming.claim_key(JOB))))
        raise redis.ConnectionError("the broker went away")

    with pytest.raises(redis.ConnectionError):
        one.take(JOB, exp=exp, look_for_cancel=broken)
    assert looked == [(JOB, 0)]
    assert not connection.exists(naming.claim_key(JOB)), "others may still take it"
    assert one.take(JOB, exp=exp, look_for_cancel=lambda job: looked.append((job, 1))) is None
    assert looked == [(JOB, 0), (JOB, 1)]
    assert connection.exists(naming.claim_key(JOB))


def test_what_no_host_and_no_sender_wrote_keeps_no_job_from_being_taken(
    connection: redis.Redis,
) -> None:
    one, exp = claims(connection, "ONE"), int(ManualClock().wall()) + 100
    connection.rpush(naming.claim_key(JOB), "no claim")
    connection.hset(naming.cancel_key(JOB), "no", "cancel")
    assert one.take(JOB, exp=exp, look_for_cancel=lambda _job: None) is None
    assert connection.get(naming.claim_key(JOB)) == b"ONE/1"
