"""A sender takes its jobs back: the wish is on disk first; its own end is for what no host had."""

from __future__ import annotations

import asyncio

import pytest

from contracts import naming
from contracts.cancel import check_cancel_claims, read_cancel_claims
from contracts.clock import SystemClock
from contracts.envelope import CANCEL_TYPE, open_envelope
from contracts.errors import InvalidRequest, Refused
from contracts.run_agent import Status
from dispatch.async_client import AsyncFleetClient
from dispatch.cancelling import Cancelling, CancelState
from dispatch.client import FleetClient
from dispatch.keys import CANCEL
from dispatch.queue import Pushed, TakenBack
from dispatch.sent import SentJob
from dispatch.sweeper import Did, Swept
from tests.dispatch.desk import PAYLOAD, Desk
from tests.dispatch.ways import QUEUE, claim, drop, take


def send(client: FleetClient, *, key: str | None = None) -> str:
    (job,) = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"], idempotency_key=key)
    return job.job_id


def standing(desk: Desk, job_id: str) -> bytes:
    with desk.broker.client() as redis:
        return bytes(redis.get(naming.cancel_key(job_id)) or b"")


def test_what_provably_no_host_had_is_taken_out_of_its_queue_and_ended_by_us(desk: Desk) -> None:
    with desk.client() as client:
        job_id = send(client)
        taken = client.cancel(job_id, why="a slip")
        assert taken.state is CancelState.CANCELLED
        assert desk.queued(QUEUE) == []
        found = client.result(job_id)
        assert found is not None
        assert found.receipt is not None
        assert (found.status, found.receipt.code.value) == (Status.FAILED, "cancelled")
        again = client.cancel(job_id)
        assert (again.state, again.note) == (
            CancelState.FINISHED,
            "it had ended already: failed",
        )
        with pytest.raises(Refused):
            client.cancel("b" * 20)
        with pytest.raises(InvalidRequest, match="why"):
            client.cancel(job_id, why="x" * 301)
    opened = open_envelope(
        standing(desk, job_id), desk.host_ring("PC1").message_keys(CANCEL), CANCEL_TYPE
    )
    claims = read_cancel_claims(opened.payload)
    check_cancel_claims(claims, audiences=frozenset({"host:PC1"}), now=SystemClock().wall())
    assert (claims.jti, claims.why) == (job_id, "a slip")


def test_what_a_host_has_or_may_have_had_is_left_to_it_and_never_pushed_again(desk: Desk) -> None:
    with desk.client() as client:
        job_id = send(client, key="nightly")
        take(desk, QUEUE, "PC1")
        assert client.cancel(job_id).state is CancelState.CANCELLING
        first = standing(desk, job_id)
        claim(desk, job_id, "PC1")
        assert client.sweep() == []
        assert standing(desk, job_id) == first, "the same order, not another one each time"
        with desk.broker.client() as redis:
            redis.flushall()
        assert client.sweep() == []
        assert desk.queued(QUEUE) == []
        assert standing(desk, job_id) == first
        assert client.resend(job_id) is Pushed.ALREADY_THERE
        assert send(client, key="nightly") == job_id
        assert desk.queued(QUEUE) == []
    with desk.client(ahead_s=7_200) as client:
        client.sweep()
        assert standing(desk, job_id) != first, "signed anew, long before it ends"


def test_a_broker_that_may_have_forgotten_proves_nothing(desk: Desk) -> None:
    with desk.client() as client:
        job_id = send(client)
        drop(desk, naming.data_mark())
        assert client.cancel(job_id).state is CancelState.CANCELLING
        assert desk.queued(QUEUE) == [job_id], "the host that meets it ends it"


def test_the_wish_is_kept_while_the_broker_is_away_and_pressed_by_the_sweep(desk: Desk) -> None:
    with desk.client() as client:
        job_id = send(client)
        desk.broker.suspend()
        try:
            kept = client.cancel(job_id)
        finally:
            desk.broker.resume()
        assert kept.state is CancelState.KEPT
        assert "kept here" in kept.note
        assert client.sweep() == [Swept(job_id, Did.CANCELLED)]


def test_taking_back_looks_into_every_hand(desk: Desk) -> None:
    queue = desk.queue()
    with desk.client() as client:
        job_id = send(client)
    hosts = ["PC1", "PC2"]
    with desk.broker.client() as redis:
        redis.set(naming.taken_list(QUEUE, "PC2"), "no list")
        redis.hset(naming.job_key(job_id), "state", "started")
        assert queue.take_back(job_id, QUEUE, hosts) is TakenBack.CLAIMED
        redis.delete(naming.job_key(job_id))
        redis.set(naming.result_key(job_id), "something")
        assert queue.take_back(job_id, QUEUE, hosts) is TakenBack.FINISHED
        redis.delete(naming.result_key(job_id))
        assert queue.take_back(job_id, QUEUE, hosts) is TakenBack.OUT
        assert queue.take_back(job_id, QUEUE, hosts) is TakenBack.ABSENT
        redis.set(naming.rq_list(QUEUE), "no list")
        assert queue.take_back(job_id, QUEUE, hosts) is TakenBack.ABSENT
    queue.close()


class OtherDoor:
    """A door that leads to every host, and keeps what it was handed."""

    def __init__(self) -> None:
        self.handed: list[str] = []

    def post_cancel(self, job: SentJob, text: str) -> bool:
        self.handed.append(f"{job.job_id} {text[:5]}")
        return True


def test_a_door_that_leads_to_the_host_needs_no_broker(desk: Desk) -> None:
    door = OtherDoor()
    with desk.client() as client:
        job_id = send(client)
        answers, sent = client._answers, client._answers._sent
        cancelling = Cancelling(answers, desk.queue(), sent, SystemClock(), doors=[door])
        assert cancelling.cancel(job_id).state is CancelState.CANCELLING
    assert door.handed == [f'{job_id} {{"v":']
    assert standing(desk, job_id) == b""


def test_an_asynchronous_client_takes_back_as_well(desk: Desk) -> None:
    async def story() -> CancelState:
        async with AsyncFleetClient.open(desk.settings) as client:
            (job,) = await client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])
            return (await client.cancel(job)).state

    assert asyncio.run(story()) is CancelState.CANCELLED
