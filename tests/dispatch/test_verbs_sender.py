"""What the verbs of a sender say of silence, of lost jobs and of its own ends of jobs."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from contracts import naming
from contracts.run_agent import Status
from dispatch.commands.watch import Watch
from tests.dispatch.conftest import Said
from tests.dispatch.desk import PAYLOAD, Desk
from tests.dispatch.test_sweeper import claim

Say = Callable[..., Said]


@pytest.fixture
def job_file(tmp_path: Path) -> str:
    path = tmp_path / "job.json"
    path.write_text(json.dumps(PAYLOAD))
    return str(path)


def silence(desk: Desk, host: str, *, stopped_at: int | None = None) -> None:
    with desk.broker.client() as redis:
        redis.delete(naming.host_key(host))
        redis.zadd(naming.hosts_index(), {host: desk.clock.wall() - 20})
        if stopped_at is not None:
            redis.set(naming.farewell_key(host), str(stopped_at))


def running_job(desk: Desk, host: str) -> str:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A", targets=[host])
    claim(desk, job.job_id, host, naming.host_queue("A", host))
    return job.job_id


def test_a_silent_host_is_shown_as_lost_in_jobs_wait_and_hosts(say: Say, desk: Desk) -> None:
    job_id = running_job(desk, "PC1")
    silence(desk, "PC1")
    words = "host_lost (last seen "
    assert words in say("jobs", environ=desk.environ).out
    assert words in say("hosts").out
    waited = say("wait", job_id, "--timeout", "0.1", "--json")
    assert waited.code == 3
    (row,) = json.loads(waited.out)["jobs"]
    assert row["notes"][0].startswith(words)
    assert waited.err.count(words) == 1
    (host,) = (row for row in json.loads(say("hosts", "--json").out)["hosts"] if row["lastSeen"])
    assert (host["state"], host["stoppedAt"]) == ("host_lost", "")
    (job,) = json.loads(say("jobs", "--json").out)["jobs"]
    assert (job["state"], job["why"][:10]) == ("host_lost", "last seen ")


def test_a_host_that_was_stopped_is_not_called_lost(say: Say, desk: Desk) -> None:
    with desk.client() as client:
        client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])
    silence(desk, "PC1", stopped_at=1_700_000_000)
    assert "stopped (" in say("hosts", environ=desk.environ).out
    (job,) = json.loads(say("jobs", "--json").out)["jobs"]
    assert job["state"] == "queued"
    assert job["why"] == "host PC1 was stopped at 2023-11-14T22:13:20Z"


def test_a_wait_says_each_change_once_and_goes_on(
    desk: Desk, capfd: pytest.CaptureFixture[str]
) -> None:
    job_id = running_job(desk, "PC1")
    with desk.client() as client:
        watch = Watch(client, [job_id], {})
        silence(desk, "PC1")
        watch.look()
        watch.look()
        desk.beat("PC1", "A")
        watch.look()
        watch.look()
        desk.broker.stop()
        watch.look()
        notes = watch.close(job_id)
    assert [words[:20] for words in notes] == ["host_lost (last seen", "PC1 answers again"]
    assert capfd.readouterr().err.count("note: ") == 2


def test_a_wait_returns_when_the_silent_host_is_back(desk: Desk) -> None:
    job_id = running_job(desk, "PC1")
    silence(desk, "PC1")
    looked = threading.Event()
    with desk.client() as client, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.wait, job_id, 60, on_look=looked.set)
        assert looked.wait(60)
        desk.answer(job_id, "PC1")
        assert waiting.result(60).status is Status.COMPLETED


def test_a_lane_that_nobody_serves_is_named_by_every_verb(
    say: Say, desk: Desk, job_file: str
) -> None:
    sent = say("enqueue", "--payload-file", job_file, "--lane", "A", environ=desk.environ)
    words = "queued: no listener serves lane A"
    assert words in sent.err
    job_id = sent.out.split()[0]
    assert "no listener serves lane A" in say("jobs").out
    assert words in say("wait", job_id, "--timeout", "0.1").err
    assert f"1 {words}" in say("hosts").err
    document = json.loads(say("hosts", "--json").out)
    assert document["unserved"] == [
        {"lane": "A", "queued": 1, "why": "no listener serves lane A"},
    ]
    waited = say("enqueue", "--payload-file", job_file, "--lane", "A", "--wait", "0.1")
    assert waited.err.count(words) == 1, "what was said at the start is not said again"
    desk.beat("PC1", "A")
    assert json.loads(say("hosts", "--json").out)["unserved"] == []


def test_giving_up_is_exit_4_with_all_nine_keys_and_the_late_result_is_shown_with_it(
    say: Say, desk: Desk, job_file: str
) -> None:
    words = ("enqueue", "--payload-file", job_file, "--lane", "A", "--targets", "PC1")
    said = say(*words, "--wait", "60", "--give-up-after", "1", "--json", environ=desk.environ)
    (row,) = json.loads(said.out)["jobs"]
    job_id = row["jobId"]
    assert (said.code, row["status"], row["host"]) == (4, "failed", "")
    assert row["receipt"]["code"] == "abandoned"
    assert row["note"] == f"abandoned at {row['receipt']['at']}"
    assert [risk["code"] for risk in row["result"]["risks"]] == ["abandoned"]
    assert "this sender  failed" in say("wait", job_id).out
    before = say("result", job_id, "--json")
    assert before.code == 4
    assert json.loads(before.out)["receipt"] == row["receipt"]
    desk.queue().store_result(job_id, desk.sign_result(job_id, "PC1"))
    after = say("result", job_id, "--json")
    document = json.loads(after.out)
    assert (after.code, document["status"]) == (0, "completed")
    assert (document["receipt"], document["note"]) == (row["receipt"], row["note"])
    assert "this result came later" in after.err
    assert "this result came later" in say("wait", job_id).err


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "2592001", "soon"])
def test_nonsense_after_give_up_after_is_refused(
    seconds: str, say: Say, desk: Desk, job_file: str
) -> None:
    for words in (("enqueue", "--payload-file", job_file, "--lane", "A"), ("wait", "a" * 20)):
        said = say(*words, "--give-up-after", seconds, environ=desk.environ)
        assert said.code == 2
        assert "--give-up-after" in said.err
    assert desk.queued("fd.lane.A") == []


def test_giving_up_without_a_wait_is_kept_for_the_next_look(
    say: Say, desk: Desk, job_file: str
) -> None:
    words = ("enqueue", "--payload-file", job_file, "--lane", "A", "--give-up-after", "1")
    job_id = say(*words, environ=desk.environ).out.split()[0]
    with desk.client(ahead_s=2) as client:
        (view,) = client.jobs()
    assert (view.job_id, view.state) == (job_id, "failed")
    assert view.why.startswith("abandoned at ")


def test_the_same_key_prints_the_same_id_and_another_job_under_it_is_exit_2(
    say: Say, desk: Desk, job_file: str, tmp_path: Path
) -> None:
    words = ("enqueue", "--lane", "A", "--targets", "PC1", "--idempotency-key", "nightly-7")
    one = say(*words, "--payload-file", job_file, environ=desk.environ)
    two = say(*words, "--payload-file", job_file)
    assert one.out.split()[0] == two.out.split()[0]
    assert (one.out.split()[-1], two.out) == ("queued", one.out.replace("queued", "already there"))
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**PAYLOAD, "task": "another"}))
    refused = say(*words, "--payload-file", str(other), "--json")
    error: dict[str, Any] = json.loads(refused.out)["error"]
    assert (refused.code, error["code"]) == (2, "key_reused")
    assert "payload.task" in error["message"]


def test_sweep_says_what_it_did(say: Say, desk: Desk) -> None:
    with desk.client() as client:
        (lane_job,) = client.enqueue_agent(PAYLOAD, lane="A")
        (host_job,) = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])
    with desk.broker.client() as redis:
        redis.flushall()
    said = say("sweep", environ=desk.environ)
    assert said.code == 0
    assert sorted(said.out.splitlines()) == sorted(
        [f"{lane_job.job_id}  claim unknown", f"{host_job.job_id}  queued"]
    )
    again = json.loads(say("sweep", "--json").out)
    assert again == {"jobs": [{"jobId": lane_job.job_id, "did": "claim_unknown"}]}
    refused = say("sweep", "--resend-lane", "--json")
    assert (refused.code, desk.queued("fd.lane.A")) == (2, [])
    done = say("sweep", lane_job.job_id, host_job.job_id, "--resend-lane")
    assert done.out == f"{lane_job.job_id}  queued\n{host_job.job_id}  already there\n"
    assert desk.queued("fd.lane.A") == [lane_job.job_id]
    assert say("sweep", "nonsense").code == 2
