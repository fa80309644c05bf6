"""No job is lost in the queue, and every one ends: the sender's half, over a real broker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from contracts import naming
from contracts.errors import (
    CouldNotCheck,
    InvalidRequest,
    KeysRefused,
    Refused,
    Unavailable,
    WaitTimedOut,
)
from contracts.run_agent import Status
from dispatch.queue import Pushed
from dispatch.sweeper import Did, Swept
from tests.dispatch.desk import PAYLOAD, Desk, result_with
from tests.dispatch.ways import QUEUE, claim, drop, take

DAY = 86_400


def test_a_hosts_job_that_is_in_no_list_is_pushed_again_until_somebody_claims_it(
    desk: Desk,
) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])
        before = desk.job_bytes(job.job_id, "PC1")
        assert client.sweep() == []
        take(desk, QUEUE, "PC1")
        assert client.sweep() == []
        drop(desk, naming.taken_list(QUEUE, "PC1"), f"rq:job:{job.job_id}")
        assert client.sweep() == [Swept(job.job_id, Did.QUEUED)]
        assert desk.queued(QUEUE) == [job.job_id]
        assert desk.job_bytes(job.job_id, "PC1") == before
        drop(desk, naming.rq_list(QUEUE))
        assert client.sweep() == []  # not again at once
    with desk.client(ahead_s=6) as client:
        assert client.sweep() == [Swept(job.job_id, Did.QUEUED)]
        claim(desk, job.job_id, "PC1")
        assert client.sweep() == []
    with desk.client(ahead_s=600) as client:
        assert client.sweep() == []
    assert desk.queued(QUEUE) == []


def test_what_is_no_claim_keeps_no_lost_job_from_being_pushed_again(desk: Desk) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])
        with desk.broker.client() as redis:
            redis.flushall()
            redis.hset(naming.claim_key(job.job_id), "no", "claim")
        assert client.sweep() == [Swept(job.job_id, Did.QUEUED)]
        assert desk.queued("fd.lane.A@PC1") == [job.job_id]


def test_jobs_and_wait_push_again_by_themselves(desk: Desk) -> None:
    with desk.client() as client:
        (one,) = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])
        (two,) = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC2"])
        with desk.broker.client() as redis:
            redis.flushall()
        with pytest.raises(WaitTimedOut):
            client.wait(two, 0.1)
        assert desk.queued("fd.lane.A@PC2") == [two.job_id]
        assert desk.queued(QUEUE) == []
        states = {view.job_id: view.state for view in client.jobs()}
        assert desk.queued(QUEUE) == [one.job_id]
        assert states == {one.job_id: "queued", two.job_id: "queued"}


def test_a_lane_job_that_a_host_may_have_started_is_said_so_and_left_alone(desk: Desk) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A")
        with desk.broker.client() as redis:
            redis.flushall()
        assert client.sweep() == [Swept(job.job_id, Did.CLAIM_UNKNOWN)]
        (view,) = client.jobs()
        assert view.state == "claim_unknown"
        assert "--resend-lane" in view.why
        assert desk.queued("fd.lane.A") == []
        assert client.resend(job.job_id, resend_lane=True) is Pushed.QUEUED
        assert client.sweep() == []
        assert desk.queued("fd.lane.A") == [job.job_id]


def test_a_key_after_a_loss_of_data_queues_a_hosts_job_and_asks_about_a_lanes(desk: Desk) -> None:
    with desk.client() as client:
        of_host: dict[str, Any] = {"lane": "A", "targets": ["PC1"], "idempotency_key": "h"}
        of_lane: dict[str, Any] = {"lane": "A", "idempotency_key": "l"}
        ids = [client.enqueue(PAYLOAD, **words)[0].job_id for words in (of_host, of_lane)]
        with desk.broker.client() as redis:
            redis.flushall()
        again = [client.enqueue(PAYLOAD, **words)[0] for words in (of_host, of_lane)]
        assert [job.job_id for job in again] == ids
        assert [job.pushed for job in again] == [Pushed.QUEUED, Pushed.CLAIM_UNKNOWN]
        assert again[1].note.startswith("claim unknown: ")
        (forced,) = client.enqueue(PAYLOAD, **of_lane, resend_lane=True)
        assert (forced.job_id, forced.pushed) == (ids[1], Pushed.QUEUED)
    assert (desk.queued(QUEUE), desk.queued("fd.lane.A")) == ([ids[0]], [ids[1]])


def test_a_job_that_was_never_accepted_is_not_queued_by_a_sweep(desk: Desk) -> None:
    desk.broker.stop()
    with desk.client() as client:
        with pytest.raises(Unavailable):
            client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])
        desk.broker.start()
        assert client.sweep() == []
        (view,) = client.jobs()
        assert view.state == "unknown"
        assert desk.queued(QUEUE) == []


def test_an_expired_job_ends_as_failed_though_no_host_is_there_to_sign(desk: Desk) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"], ttl_s=60)
    with desk.client(ahead_s=100) as client, pytest.raises(WaitTimedOut):
        client.wait(job, 0.1)
    with desk.client(ahead_s=182) as client:
        result = client.wait(job, 30)
        assert (result.status, result.host, int(result.exit_code)) == (Status.FAILED, "", 4)
        assert [risk.code for risk in result.run.risks] == ["expired"]
        assert set(json.loads(result.text)) >= {"status", "summary", "worktreePath", "agent"}
        (view,) = client.jobs()
        assert view.state == "failed"
        assert view.why.startswith("expired at ")
        assert client.resend(job.job_id) is Pushed.FINISHED
    assert desk.queued(QUEUE) == []
    with desk.broker.client() as redis:
        assert redis.hget(naming.job_key(job.job_id), "state") == b"expired"
        assert redis.ttl(naming.receipt_key(job.job_id)) > 6 * DAY


def test_a_job_is_given_up_when_its_sender_said_and_a_late_result_is_kept_and_shown(
    desk: Desk,
) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"], give_up_after_s=60)
        late = desk.sign_result(job.job_id, "PC1")
        claim(desk, job.job_id, "PC1")
    with desk.client(ahead_s=61) as client:
        assert client.sweep() == [Swept(job.job_id, Did.ABANDONED)]
        assert client.sweep() == []
        given_up = client.wait(job, 0)
        assert [risk.code for risk in given_up.run.risks] == ["abandoned"]
        assert given_up.note.startswith("abandoned at ")
        desk.queue().store_result(job.job_id, late)
        real = client.wait(job, 0)
        assert (real.status, real.host, real.alarms) == (Status.COMPLETED, "PC1", ())
        assert real.note == given_up.note
        assert client.result(job) == real
        (view,) = client.jobs()
        assert (view.state, view.why) == ("completed", real.note)
    desk.broker.stop()
    with desk.client() as client:
        assert client.result(job) == real


def test_a_wait_gives_up_by_itself_and_wakes_the_others(desk: Desk) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A")
        result = client.wait(job, 60, give_up_after_s=1)
        assert [risk.code for risk in result.run.risks] == ["abandoned"]
        assert desk.queued("fd.lane.A") == [], "what nobody waits for is not started any more"
        assert client.wait(job, 0, give_up_after_s=600).note == result.note


def test_a_wait_gives_up_without_a_broker_and_tells_it_later(desk: Desk) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])
        (patient,) = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])
        looked: list[int] = []

        def look() -> None:
            if not looked:
                desk.broker.kill()
                client.waits.begin(job.job_id, 1)
            looked.append(1)

        result = client.wait(job, 120, on_look=look)
        assert [risk.code for risk in result.run.risks] == ["abandoned"]
        assert client.result(job) == result
        with pytest.raises(Unavailable):
            client.result(patient)
        desk.broker.start()
        with desk.broker.client() as redis:
            assert not redis.exists(naming.receipt_key(job.job_id))
            client.sweep()
            assert redis.exists(naming.receipt_key(job.job_id))


def test_a_receipt_is_believed_from_the_broker_only_when_we_signed_it(desk: Desk) -> None:
    with desk.client() as client:
        (one,) = client.enqueue_agent(PAYLOAD, lane="A", give_up_after_s=1)
        (two,) = client.enqueue_agent(PAYLOAD, lane="A")
    with desk.client(ahead_s=2) as client:
        client.sweep()
        text = desk.queue().receipt_text(one.job_id)
        assert text
        for forged in (text, "garbage", "x" * 30_000_000):
            with desk.broker.client() as redis:
                redis.set(naming.receipt_key(two.job_id), forged)
            assert client.result(two) is None


def test_a_job_without_a_word_is_given_up_after_a_day_of_silence(desk: Desk) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])
        claim(desk, job.job_id, "PC1")
        desk.beat("PC1", "A", seconds=600)
    with desk.client(ahead_s=DAY + 10) as client:
        assert client.sweep() == []
        drop(desk, naming.host_key("PC1"))
        assert client.sweep() == [Swept(job.job_id, Did.ABANDONED)]


@pytest.mark.parametrize("seconds", [0, -1, 0.5, 31 * DAY, float("nan"), float("inf"), True])
def test_nonsense_is_no_time_to_give_up(seconds: float, desk: Desk) -> None:
    with desk.client() as client:
        with pytest.raises(InvalidRequest, match="give-up-after"):
            client.enqueue_agent(PAYLOAD, lane="A", give_up_after_s=seconds)
        (job,) = client.enqueue_agent(PAYLOAD, lane="A")
        with pytest.raises(InvalidRequest, match="give-up-after"):
            client.wait(job, 0, give_up_after_s=seconds)
    assert desk.queued("fd.lane.A") == [job.job_id]


def test_nobody_ends_a_job_that_he_did_not_send(desk: Desk) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A")
    bob = Desk(desk.home.parent / "bob", desk.broker, sender="bob")
    with bob.client() as client, pytest.raises(Refused) as refused:
        client.wait(job.job_id, 1, give_up_after_s=1)
    assert refused.value.code == "unknown_job"


def test_a_sender_without_its_keys_still_sees_that_it_sent_a_job(desk: Desk) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])
    for path in desk.settings.places.keys_dir.iterdir():
        path.unlink()
    with desk.client() as client:
        (view,) = client.jobs()
    assert (view.job_id, view.is_mine, view.state) == (job.job_id, True, "queued")


def test_a_push_that_the_queue_does_not_take_is_an_error_and_comes_again(desk: Desk) -> None:
    with desk.client() as client, desk.broker.client() as redis:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])
        redis.delete(naming.rq_list(QUEUE))
        redis.set(naming.rq_list(QUEUE), "no list")
        with pytest.raises(CouldNotCheck):
            client.resend(job.job_id)
        redis.delete(naming.rq_list(QUEUE))
        assert client.resend(job.job_id) is Pushed.QUEUED
    assert desk.queued(QUEUE) == [job.job_id]


def test_a_receipt_of_a_job_is_not_stored_over_an_error_of_the_broker(desk: Desk) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"], give_up_after_s=1)
        with desk.broker.client() as redis:
            redis.delete(naming.rq_list(QUEUE))
            redis.set(naming.rq_list(QUEUE), "no list")
            redis.execute_command("ACL", "SETUSER", "default", "-lrem")
        with desk.client(ahead_s=2) as later:
            assert later.sweep() == [Swept(job.job_id, Did.ABANDONED)]
        with desk.broker.client() as redis:
            redis.execute_command("ACL", "SETUSER", "default", "+lrem")
        assert client.sweep() == []
        assert desk.queue().receipt_text(job.job_id)


def test_a_machine_without_a_sender_sweeps_nothing(desk: Desk) -> None:
    other = Desk(desk.home.parent / "other", desk.broker)
    for path in other.settings.places.keys_dir.iterdir():
        path.unlink()
    with other.client() as client:
        assert client.jobs() == []
        with pytest.raises(KeysRefused):
            client.resend("a" * 20)


def test_a_result_that_is_there_keeps_a_job_from_being_given_up(desk: Desk) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"], give_up_after_s=60)
        envelope = desk.sign_result(job.job_id, "PC1", run=result_with(Status.FAILED))
        desk.queue().store_result(job.job_id, envelope)
        assert client.wait(job, 5).host == "PC1"
        assert client.sweep() == []
        (other,) = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"], give_up_after_s=60)
        desk.answer(other.job_id, "PC1")
    with desk.client(ahead_s=61) as client:
        assert client.sweep() == []
        assert client.jobs()[0].state == "completed"
        found = client.result(job)
        assert found is not None
        assert found.note == ""


@pytest.mark.parametrize("targets", [["PC1"], None], ids=["for the host", "for the lane"])
def test_a_job_that_a_living_host_says_it_has_is_neither_pushed_again_nor_unknown(
    targets: list[str] | None, desk: Desk
) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A", targets=targets)
        with desk.broker.client() as redis:
            redis.flushall()
        desk.beat("PC1", "A", jobs=[job.job_id])
        assert client.sweep() == []
        assert client.resend(job.job_id, resend_lane=True) is Pushed.ALREADY_THERE
        (view,) = client.jobs()
        assert (view.state, view.host) == ("started", "PC1")
        desk.beat("PC1", "A", jobs=[])
        desk.beat("PC2", "A", jobs=[job.job_id])
        done = [item.did for item in client.sweep()]
        assert done == ([Did.QUEUED] if targets else [])
