"""The same command again finds the same job."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from contracts.errors import InvalidRequest, KeysRefused, Refused, Unavailable
from contracts.run_agent import Status
from dispatch.idempotency import asked_text, check_same, checked_key
from dispatch.queue import Pushed
from tests.dispatch.desk import PAYLOAD, Desk


@pytest.mark.parametrize("key", ["", "x" * 201, "a\nb", "\x1b", None, 1])
def test_what_is_no_key_is_refused(key: object) -> None:
    with pytest.raises(InvalidRequest, match="idempotency-key"):
        checked_key(key)


def test_a_key_may_be_any_printable_words() -> None:
    assert checked_key("größer / nightly 7") == "größer / nightly 7"


def test_every_difference_is_named_and_no_value_is_kept() -> None:
    held = asked_text({"task": "secret", "ticket": "T"}, kind="run_agent", lane="A", targets=None)
    assert "secret" not in held
    check_same(held, held, "k")
    asked = asked_text({"task": "x", "mode": "plan"}, kind="run_agent", lane="B", targets=["P"])
    with pytest.raises(Refused) as refused:
        check_same(held, asked, "k")
    assert refused.value.code == "key_reused"
    named = "lane, payload.mode, payload.task, payload.ticket, targets differ"
    assert named in str(refused.value)


def test_the_same_key_returns_the_same_jobs_and_their_result(desk: Desk) -> None:
    words: dict[str, Any] = {"lane": "A", "targets": ["PC1", "PC2"], "idempotency_key": "k"}
    with desk.client() as client:
        first = client.enqueue_agent(PAYLOAD, **words)
        reordered = dict(reversed(PAYLOAD.items()))
        again = client.enqueue_agent(reordered, **words)
        assert [job.job_id for job in again] == [job.job_id for job in first]
        assert [job.pushed for job in first] == [Pushed.QUEUED] * 2
        assert [job.pushed for job in again] == [Pushed.ALREADY_THERE] * 2
        desk.answer(first[0].job_id, "PC1")
        assert client.wait(first[0], 5).status is Status.COMPLETED
        done = client.enqueue_agent(PAYLOAD, **words)
        assert [job.pushed for job in done] == [Pushed.FINISHED, Pushed.ALREADY_THERE]
        found = client.result(done[0])
        assert found is not None
        assert found.status is Status.COMPLETED
        other = client.enqueue_agent(PAYLOAD, **{**words, "idempotency_key": "other"})
        assert {job.job_id for job in other}.isdisjoint(job.job_id for job in first)
    assert desk.queued("fd.lane.A@PC1") == [first[0].job_id, other[0].job_id]


@pytest.mark.parametrize(
    ("payload", "words", "named"),
    [
        ({"task": "another"}, {}, "payload.task differ"),
        ({"mode": "plan"}, {}, "payload.mode differ"),
        ({}, {"targets": ["PC2"]}, "targets differ"),
        ({}, {"lane": "B", "targets": ["PC2"]}, "lane, targets differ"),
    ],
)
def test_the_same_key_for_another_job_is_refused_naming_what_differs(
    payload: dict[str, Any], words: dict[str, Any], named: str, desk: Desk
) -> None:
    with desk.client() as client:
        asked: dict[str, Any] = {"lane": "A", "targets": ["PC1"], "idempotency_key": "k"}
        (job,) = client.enqueue_agent(PAYLOAD, **asked)
        with pytest.raises(Refused, match=named):
            client.enqueue_agent({**PAYLOAD, **payload}, **{**asked, **words})
        with pytest.raises(InvalidRequest, match="agent"):
            client.enqueue_agent({**PAYLOAD, "agent": "hal"}, **asked)
    assert desk.queued("fd.lane.A@PC1") == [job.job_id]
    assert desk.queued("fd.lane.A@PC2") == []


def test_the_first_answer_to_how_long_holds(desk: Desk) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A", ttl_s=600, idempotency_key="k")
        (same,) = client.enqueue_agent(PAYLOAD, lane="A", ttl_s=900, idempotency_key="k")
    assert same.job_id == job.job_id


def test_many_calls_at_once_with_one_key_are_one_job(desk: Desk) -> None:
    def send(_: int) -> str:
        with desk.client() as client:
            (job,) = client.enqueue_agent(PAYLOAD, lane="A", idempotency_key="k")
            return job.job_id

    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(send, range(24)))
    assert len(ids) == 1
    assert desk.queued("fd.lane.A") == list(ids)


def test_a_call_that_found_no_broker_is_finished_by_the_next_with_the_same_bytes(
    desk: Desk,
) -> None:
    desk.broker.stop()
    with desk.client() as client:
        with pytest.raises(Unavailable):
            client.enqueue_agent(PAYLOAD, lane="A", idempotency_key="k")
        desk.broker.start()
        (job,) = client.enqueue_agent(PAYLOAD, lane="A", idempotency_key="k")
        assert job.pushed is Pushed.QUEUED
        assert desk.queued("fd.lane.A") == [job.job_id]
        assert client.resend(job.job_id) is Pushed.ALREADY_THERE


def test_a_job_that_never_arrived_before_its_time_was_over_has_an_end_when_asked_again(
    desk: Desk,
) -> None:
    desk.broker.stop()
    with desk.client() as client, pytest.raises(Unavailable):
        client.enqueue_agent(PAYLOAD, lane="A", idempotency_key="k", ttl_s=60)
    desk.broker.start()
    with desk.client(ahead_s=200) as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A", idempotency_key="k")
        assert job.pushed is Pushed.FINISHED
        found = client.result(job)
        assert found is not None
        assert [risk.code for risk in found.run.risks] == ["expired"]
    assert desk.queued("fd.lane.A") == []


def test_two_senders_on_one_machine_have_keys_of_their_own(desk: Desk, tmp_path: Path) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A", idempotency_key="k")
    bob = Desk(desk.home, desk.broker, sender="bob")
    with bob.client() as client, pytest.raises(KeysRefused):  # its own key, and no grant yet
        client.enqueue_agent(PAYLOAD, lane="A", idempotency_key="k")
    bob.enrol("PC9", "A")
    with bob.client() as client:
        (other,) = client.enqueue_agent(PAYLOAD, lane="A", idempotency_key="k")
    assert other.job_id != job.job_id


def test_sending_a_lane_job_again_needs_a_key(desk: Desk) -> None:
    with desk.client() as client, pytest.raises(InvalidRequest, match="resend-lane"):
        client.enqueue(PAYLOAD, lane="A", resend_lane=True)
    assert desk.queued("fd.lane.A") == []
