from __future__ import annotations

import hashlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import dispatch
from contracts.errors import (
    InvalidRequest,
    KeysRefused,
    Refused,
    Unavailable,
    WaitTimedOut,
)
from contracts.job_claims import read_job_claims
from contracts.run_agent import RunAgentRequest, Status
from dispatch.client import FleetClient
from dispatch.queue import Pushed
from dispatch.settings import load_settings
from tests.dispatch.desk import PAYLOAD, Desk, result_with


def test_the_package_offers_both_clients_and_nothing_else() -> None:
    assert dispatch.FleetClient is FleetClient
    assert dispatch.AsyncFleetClient.__name__ == "AsyncFleetClient"
    with pytest.raises(AttributeError):
        dispatch.Missing  # noqa: B018


def test_a_job_for_named_hosts_is_queued_once_for_each_with_its_own_id(desk: Desk) -> None:
    with desk.client() as client:
        jobs = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1", "PC2"])
    assert [job.target for job in jobs] == ["PC1", "PC2"]
    assert len({job.job_id for job in jobs}) == 2
    assert desk.queued("fd.lane.A@PC1") == [jobs[0].job_id]
    assert desk.queued("fd.lane.A@PC2") == [jobs[1].job_id]
    assert desk.queued("fd.lane.A") == []
    claims = read_job_claims(desk.job_bytes(jobs[0].job_id, "PC1"))
    assert (claims.iss, claims.aud, claims.lane) == ("alice", "host:PC1", "A")
    assert (claims.kind, claims.jti) == ("run_agent", jobs[0].job_id)
    assert claims.exp - claims.iat == 24 * 3_600


def test_a_job_for_a_lane_is_queued_once_and_every_host_of_it_can_check_it(desk: Desk) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A")
    assert desk.queued("fd.lane.A") == [job.job_id]
    assert desk.job_bytes(job.job_id, "PC1") == desk.job_bytes(job.job_id, "PC2")


def test_the_signed_payload_is_what_was_given_and_no_default_is_added(desk: Desk) -> None:
    given: dict[str, Any] = {"ticket": "T", **PAYLOAD, "timeoutSec": 5, "task": "größer\n→"}
    with desk.client() as client:
        jobs = [
            *client.enqueue_agent(given, lane="A"),
            *client.enqueue_agent(RunAgentRequest(**given), lane="A"),
            *client.enqueue_agent(lane="A", **given),
        ]
    for job in jobs:
        assert json.loads(desk.job_bytes(job.job_id, "PC1"))["payload"] == given
    raw = desk.job_bytes(jobs[0].job_id, "PC1")
    assert json.dumps(given, ensure_ascii=False, separators=(",", ":")).encode() in raw


def test_the_rq_call_is_our_entry_with_exactly_one_string(desk: Desk) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A")
    function, instance, args, kwargs = desk.rq_call(job.job_id)
    assert (function, instance, kwargs) == ("worker.entry.run_envelope", None, {})
    assert len(args) == 1
    assert isinstance(args[0], str)


@pytest.mark.parametrize(
    "changes",
    [
        {"agent": "hal"},
        {"extra": 1},
        {"ticket": "../x"},
        {"task": None},
        {"repo": "relative"},
        {"timeoutSec": "60"},
        {"branch": "-q"},
    ],
)
def test_a_malformed_request_dies_here_and_nothing_is_queued(
    desk: Desk, changes: dict[str, Any]
) -> None:
    with desk.client() as client:
        with pytest.raises(InvalidRequest):
            client.enqueue_agent({**PAYLOAD, **changes}, lane="A", targets=["PC1", "PC2"])
        assert client.jobs() == []
    with desk.broker.client() as redis:
        assert redis.dbsize() == 0


def test_all_problems_of_a_request_come_at_once(desk: Desk) -> None:
    with desk.client() as client, pytest.raises(InvalidRequest) as refused:
        client.enqueue_agent(agent="hal", task="", repo="x", lane="A")
    fields = {problem.field for problem in refused.value.problems}
    assert fields == {"agent", "task", "repo", "ticket"}


def test_an_unknown_kind_is_refused(desk: Desk) -> None:
    with desk.client() as client, pytest.raises(InvalidRequest, match="kind"):
        client.enqueue(PAYLOAD, kind="mail", lane="A")


@pytest.mark.parametrize("ttl", [0, -1, 7 * 86_400 + 1, True])
def test_a_life_out_of_range_is_refused(desk: Desk, ttl: int) -> None:
    with desk.client() as client, pytest.raises(InvalidRequest, match="ttl"):
        client.enqueue_agent(PAYLOAD, lane="A", ttl_s=ttl)


def test_one_target_without_a_grant_and_nothing_is_queued_for_the_others(desk: Desk) -> None:
    with desk.client() as client, pytest.raises(KeysRefused, match="PC1"):
        client.enqueue_agent(PAYLOAD, lane="B", targets=["PC2", "PC1"])
    with desk.broker.client() as redis:
        assert redis.dbsize() == 0


def test_a_brief_of_four_megabytes_passes_and_one_beyond_the_limit_names_it(desk: Desk) -> None:
    with desk.client() as client:
        brief = "é" * (2 * 1024 * 1024)
        (job,) = client.enqueue_agent({**PAYLOAD, "task": brief}, lane="A")
        assert json.loads(desk.job_bytes(job.job_id, "PC1"))["payload"]["task"] == brief
        with pytest.raises(InvalidRequest, match=r"payload: is \d+ bytes .*16777216") as refused:
            client.enqueue_agent({**PAYLOAD, "task": "x" * (16 * 1024 * 1024)}, lane="A")
    assert len(str(refused.value)) < 500
    assert desk.queued("fd.lane.A") == [job.job_id]


def test_a_job_that_nobody_takes_says_why(desk: Desk) -> None:
    with desk.client() as client:
        (lane_job,) = client.enqueue_agent(PAYLOAD, lane="A")
        (host_job,) = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])
        assert lane_job.note == "queued: no listener serves lane A"
        assert host_job.note == "queued: host PC1 was never seen"
        states = {view.job_id: (view.state, view.why) for view in client.jobs()}
        assert states[lane_job.job_id] == ("queued", "no listener serves lane A")

        desk.beat("PC1", "A")
        (served,) = client.enqueue_agent(PAYLOAD, lane="A")
        assert served.note == ""
        assert {view.why for view in client.jobs()} == {""}


def test_a_verified_result_comes_back_typed(desk: Desk) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])
        assert client.result(job) is None
        desk.answer(job.job_id, "PC1")
        result = client.wait(job, 5)
        assert (result.host, result.status) == ("PC1", Status.COMPLETED)
        assert result.run.changed_files == ("a.py",)
        assert client.result(job.job_id) == result
        (view,) = client.jobs()
        assert (view.state, view.host, view.is_mine) == ("completed", "PC1", True)


@pytest.mark.parametrize("status", list(Status))
def test_no_status_ever_raises(desk: Desk, status: Status) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A")
        desk.answer(job.job_id, "PC2", status)
        assert client.wait(job, 5).status is status


def test_a_wait_that_ends_first_raises_and_the_job_goes_on(desk: Desk) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A")
        with pytest.raises(WaitTimedOut):
            client.wait(job, 0.2)
        assert desk.queued("fd.lane.A") == [job.job_id]


def test_a_waiter_is_woken_by_the_real_result_and_not_by_garbage(desk: Desk) -> None:
    with desk.client() as client, ThreadPoolExecutor(1) as pool:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A")
        waiting = pool.submit(client.wait, job, 20)
        with desk.broker.client() as redis:
            redis.set(f"fd:result:{job.job_id}", "garbage")
            redis.publish(f"fd:done:{job.job_id}", "1")
        desk.answer(job.job_id, "PC1", Status.FAILED)
        assert waiting.result(20).status is Status.FAILED


def test_the_first_result_stands_for_ever_and_a_second_is_an_alarm(desk: Desk) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A")
        desk.answer(job.job_id, "PC1")
        first = client.wait(job, 5)
        other = desk.sign_result(job.job_id, "PC2", run=result_with(Status.FAILED))
        with desk.broker.client() as redis:
            redis.set(f"fd:result:{job.job_id}", other)
        again = client.result(job)
        assert again is not None
        assert (again.host, again.status, again.text) == ("PC1", first.status, first.text)
        assert len(again.alarms) == 1
        assert "PC2" in again.alarms[0]


def test_a_kept_result_answers_when_the_broker_is_away(desk: Desk) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A")
        (open_job,) = client.enqueue_agent(PAYLOAD, lane="A")
        desk.answer(job.job_id, "PC1")
        client.wait(job, 5)
        desk.broker.stop()
    with desk.client() as later:
        found = later.result(job.job_id)
        assert found is not None
        assert found.status is Status.COMPLETED
        assert later.wait(job.job_id, 0).status is Status.COMPLETED
        with pytest.raises(Unavailable):
            later.result(open_job.job_id)


def test_a_result_of_a_job_that_we_did_not_send_is_refused(desk: Desk, tmp_path: Path) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A")
        desk.answer(job.job_id, "PC1")
    desk.settings.places.sent_file.unlink()
    with desk.client() as client:
        for call in (client.result, client.wait, client.resend):
            with pytest.raises(Refused, match="no record of job") as refused:
                call(job.job_id)
            assert refused.value.code == "unknown_job"
        with pytest.raises(InvalidRequest):
            client.result("../../x")


def test_no_broker_leaves_nothing_behind_but_the_record(desk: Desk) -> None:
    desk.broker.stop()
    with desk.client() as client, pytest.raises(Unavailable, match="no broker answers"):
        client.enqueue_agent(PAYLOAD, lane="A")


def test_a_job_that_the_broker_lost_is_sent_again_byte_for_byte(desk: Desk) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A")
        before = hashlib.sha256(desk.job_bytes(job.job_id, "PC1")).hexdigest()
        assert client.resend(job.job_id) is Pushed.ALREADY_THERE
        with desk.broker.client() as redis:
            redis.flushall()
        (view,) = client.jobs()
        assert view.state == "claim_unknown"
        assert client.resend(job.job_id) is Pushed.CLAIM_UNKNOWN
        assert desk.queued("fd.lane.A") == []
        assert client.resend(job.job_id, resend_lane=True) is Pushed.QUEUED
        assert hashlib.sha256(desk.job_bytes(job.job_id, "PC1")).hexdigest() == before
        desk.answer(job.job_id, "PC1")
        assert client.resend(job.job_id) is Pushed.FINISHED
        assert client.wait(job, 5).status is Status.COMPLETED
        assert client.resend(job.job_id) is Pushed.FINISHED
    assert desk.queued("fd.lane.A") == [job.job_id]


def test_fifty_parallel_sends_of_one_job_queue_it_once(desk: Desk) -> None:
    with desk.client() as client, ThreadPoolExecutor(16) as pool:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A")
        with desk.broker.client() as redis:
            redis.flushall()
        states = list(pool.map(lambda _: client.resend(job.job_id, resend_lane=True), range(50)))
    assert states.count(Pushed.QUEUED) == 1
    assert desk.queued("fd.lane.A") == [job.job_id]


def test_a_machine_without_an_identity_can_look_but_not_send(desk: Desk, tmp_path: Path) -> None:
    environ = {**desk.environ, "FLEET_DISPATCH_HOME": str(tmp_path / "other")}
    with FleetClient.open(load_settings(environ=environ)) as client:
        desk.beat("PC1", "A")
        with desk.client() as sender:
            sender.enqueue_agent(PAYLOAD, lane="A")
        assert [host.name for host in client.hosts()] == ["PC1"]
        assert [view.is_mine for view in client.jobs()] == [False]
        with pytest.raises(KeysRefused, match="fleet-dispatch init"):
            client.enqueue_agent(PAYLOAD, lane="A")
        with pytest.raises(KeysRefused):
            client.result("a" * 20)


def test_keys_that_others_can_read_stop_the_client(desk: Desk) -> None:
    desk.settings.places.keys_dir.chmod(0o755)
    with pytest.raises(KeysRefused, match="chmod 700"):
        FleetClient.open(desk.settings)


def test_one_client_serves_many_threads(desk: Desk) -> None:
    done = threading.Event()
    with desk.client() as client, ThreadPoolExecutor(8) as pool:
        jobs = [
            job
            for found in pool.map(lambda _: client.enqueue_agent(PAYLOAD, lane="A"), range(16))
            for job in found
        ]
        waits = [pool.submit(client.wait, job, 30) for job in jobs[:7]]
        for job in jobs[:7]:
            desk.answer(job.job_id, "PC1")
        assert {item.result(30).status for item in waits} == {Status.COMPLETED}
        done.set()
    assert len(desk.queued("fd.lane.A")) == 16


def test_a_note_that_cannot_be_made_is_no_reason_to_fail(desk: Desk) -> None:
    with desk.client() as client, desk.broker.client() as redis:
        redis.execute_command(
            "ACL", "SETUSER", "default", "-eval", "-eval_ro"
        )  # only looking needs it
        (job,) = client.enqueue_agent(PAYLOAD, lane="A")
        assert job.note == ""
    assert desk.queued("fd.lane.A") == [job.job_id]
