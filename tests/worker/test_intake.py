"""The intake: slots come back whatever a job does, and what was left over is taken again."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import redis

from contracts import naming
from contracts.clock import SystemClock
from contracts.errors import Unavailable
from contracts.ids import new_job_id
from tests.support.broker import Broker
from tests.support.fleet import wait_until
from worker.broker.bells import Bells
from worker.broker.board import Board
from worker.broker.intake import Intake
from worker.delivery import Delivery, Ending
from worker.sealed import SealedWorker
from worker.slots import Slots

QUEUES = ("fd.one", "fd.two")


class ScriptedEntry:
    """Does to each delivery what the test says, and keeps what it saw."""

    def __init__(self, act: Callable[[str, Delivery], Ending]) -> None:
        self._act = act
        self.seen: list[str] = []
        self.given_up: list[str] = []

    def __call__(self, text: str, delivery: Delivery) -> Ending:
        self.seen.append(f"{delivery.queue_name}:{text}")
        return self._act(text, delivery)

    def give_up(self, job_id: str, why: str) -> None:
        self.given_up.append(why)


@pytest.fixture
def connection(broker: Broker) -> Iterator[redis.Redis]:
    with broker.client() as client:
        yield client


def push(connection: redis.Redis, queue: str, text: str) -> str:
    job_id = new_job_id()
    data = zlib.compress(json.dumps([naming.ENTRY_PATH, None, [text], {}]).encode())
    connection.hset(f"rq:job:{job_id}", "data", data)
    connection.rpush(naming.rq_list(queue), job_id)
    connection.publish(naming.bell_channel(queue), b"1")
    return job_id


@contextmanager
def taking(connection: redis.Redis, entry: ScriptedEntry, said: list[str]) -> Iterator[Slots]:
    clock, stop = SystemClock(), threading.Event()
    slots = Slots(1, clock)
    intake = Intake(
        [SealedWorker(queue, "H", connection) for queue in QUEUES],
        entry,  # type: ignore[arg-type]
        slots=slots,
        bells=Bells(connection, QUEUES),
        board=Board(connection, "H", clock),
        clock=clock,
        say=lambda what, **_details: said.append(what),
    )
    thread = threading.Thread(target=intake.run, args=(stop,))
    thread.start()
    try:
        yield slots
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive()
        assert slots.join(30)


def settle(_text: str, delivery: Delivery) -> Ending:
    delivery.settle()
    return Ending.SETTLED


def test_the_queues_of_a_host_take_turns(connection: redis.Redis) -> None:
    for queue in QUEUES:
        for number in range(3):
            push(connection, queue, str(number))
    entry = ScriptedEntry(settle)
    with taking(connection, entry, []):
        wait_until(lambda: len(entry.seen) == 6, "all are taken")
    queues = [item.partition(":")[0] for item in entry.seen]
    assert queues == [*QUEUES] * 3


def test_a_mistake_of_ours_ends_that_job_and_frees_its_slot(connection: redis.Redis) -> None:
    def act(text: str, delivery: Delivery) -> Ending:
        if text == "bad":
            raise ZeroDivisionError
        return settle(text, delivery)

    entry, said = ScriptedEntry(act), list[str]()
    push(connection, QUEUES[0], "bad")
    push(connection, QUEUES[0], "good")
    with taking(connection, entry, said) as slots:
        wait_until(lambda: f"{QUEUES[0]}:good" in entry.seen, "the next one is taken")
        wait_until(lambda: slots.free() == 1, "the slot is free")
    assert entry.given_up == ["the listener failed: ZeroDivisionError"]
    assert "listener_failed" in said


def test_what_could_not_be_decided_comes_again(connection: redis.Redis) -> None:
    tries: list[str] = []

    def act(text: str, delivery: Delivery) -> Ending:
        tries.append(text)
        if len(tries) < 3:
            raise Unavailable("the journal is locked")
        return settle(text, delivery)

    entry, said = ScriptedEntry(act), list[str]()
    push(connection, QUEUES[0], "job")
    with taking(connection, entry, said):
        wait_until(lambda: len(tries) == 3, "it is tried again")
    assert said.count("postponed") == 2
    assert connection.keys("fd:taken:*") == []


def test_a_job_that_is_passed_on_does_not_keep_the_next_one_waiting(
    connection: redis.Redis,
) -> None:
    def act(text: str, delivery: Delivery) -> Ending:
        if text == "for another host":
            delivery.pass_on(lane="L", ring=True)
            return Ending.PASSED_ON
        return settle(text, delivery)

    entry = ScriptedEntry(act)
    passed = push(connection, QUEUES[0], "for another host")
    push(connection, QUEUES[0], "ours")
    with taking(connection, entry, []):
        wait_until(lambda: f"{QUEUES[0]}:ours" in entry.seen, "the next one is taken")
        queue = naming.rq_list(naming.lane_queue("L"))
        wait_until(lambda: connection.lrange(queue, 0, -1) == [passed.encode()], "it waits there")
