"""enqueue, wait, result, jobs, hosts and doctor, over a real broker."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contracts.run_agent import Status
from dispatch.queue import FleetQueue
from tests.dispatch.conftest import Said
from tests.dispatch.desk import PAYLOAD, Desk, result_with
from tests.support.broker import Broker

Say = Callable[..., Said]


@pytest.fixture
def job_file(tmp_path: Path) -> str:
    path = tmp_path / "job.json"
    path.write_text(json.dumps(PAYLOAD))
    return str(path)


def _enqueue(say: Say, desk: Desk, file: str, *words: str) -> Any:
    said = say("enqueue", "--payload-file", file, *words, "--json", environ=desk.environ)
    assert said.code == 0, said.err
    return json.loads(said.out)["jobs"]


def test_one_job_is_queued_for_each_target(say: Say, desk: Desk, job_file: str) -> None:
    jobs = _enqueue(say, desk, job_file, "--lane", "A", "--targets", "PC1, PC2")
    assert [job["target"] for job in jobs] == ["PC1", "PC2"]
    assert desk.queued("fd.lane.A@PC1") == [jobs[0]["jobId"]]
    assert [job["note"] for job in jobs] == [
        "queued: host PC1 was never seen",
        "queued: host PC2 was never seen",
    ]


def test_the_note_is_on_stderr_and_the_id_on_stdout(say: Say, desk: Desk, job_file: str) -> None:
    words = ("enqueue", "--payload-file", job_file, "--lane", "A")
    said = say(*words, environ=desk.environ)
    (job_id,) = desk.queued("fd.lane.A")
    assert said.out == f"{job_id}  lane A  queued\n"
    assert "no listener serves lane A" in said.err


def test_the_payload_may_come_from_stdin(
    say: Say, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(json.dumps(PAYLOAD).encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    (job,) = _enqueue(say, desk, "-", "--lane", "A")
    assert desk.queued("fd.lane.A") == [job["jobId"]]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"agent":"codex","agent":"claude"}', "key twice"),
        ('{"timeoutSec":NaN}', "NaN"),
        ('{"timeoutSec":1.5}', "not an integer"),
        ("\ufeff{}", "byte order mark"),
        ('{"task":"\\ud800"}', "lone surrogate"),
        ('{"agent":"hal","task":"x","repo":"/r","ticket":"T"}', "agent"),
        ('{"agent":"codex","task":"x","repo":"/r","ticket":"T","host":"x"}', "host"),
    ],
)
def test_a_malformed_payload_is_exit_2_and_nothing_is_queued(
    say: Say, desk: Desk, tmp_path: Path, text: str, problem: str
) -> None:
    path = tmp_path / "job.json"
    path.write_text(text)
    words = ("enqueue", "--payload-file", str(path), "--lane", "A", "--json")
    said = say(*words, environ=desk.environ)
    assert said.code == 2
    assert problem in json.dumps(json.loads(said.out)["error"])
    with desk.broker.client() as redis:
        assert redis.dbsize() == 0


def test_all_problems_of_a_payload_are_printed(say: Say, desk: Desk, tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_text('{"agent":"hal","task":"","repo":"r"}')
    said = say("enqueue", "--payload-file", str(path), "--lane", "A", environ=desk.environ)
    assert (said.code, said.out) == (2, "")
    assert all(f"{field}: " in said.err for field in ("agent", "task", "repo", "ticket"))


@pytest.mark.parametrize(
    ("words", "needle"),
    [
        (("--lane", "A", "--kind", "mail"), "kind"),
        (("--lane", "A", "--targets", "PC9"), "PC9"),
        (("--lane", "A", "--targets", ""), "targets"),
        (("--lane", "A", "--targets", "PC1,PC1"), "twice"),
        (("--lane", "Z"), "lane Z"),
        (("--lane", "a b"), "lane"),
        (("--lane", "A", "--ttl", "0"), "ttl"),
        ((), "--lane"),
    ],
)
def test_what_cannot_be_honoured_is_exit_2_and_nothing_is_queued(
    say: Say, desk: Desk, job_file: str, words: tuple[str, ...], needle: str
) -> None:
    said = say("enqueue", "--payload-file", job_file, *words, "--json", environ=desk.environ)
    assert said.code == 2
    assert needle in said.err
    assert "error" in json.loads(said.out)
    with desk.broker.client() as redis:
        assert redis.dbsize() == 0


def test_a_missing_payload_file_is_named(say: Say, desk: Desk, tmp_path: Path) -> None:
    words = ("enqueue", "--payload-file", str(tmp_path / "none.json"), "--lane", "A")
    said = say(*words, environ=desk.environ)
    assert said.code == 2
    assert "--payload-file" in said.err


def test_no_broker_names_the_url_without_its_password_and_the_remedy(
    say: Say, desk: Desk, job_file: str
) -> None:
    desk.broker.stop()
    url = desk.broker.url.replace("redis://", "redis://:hunter2@")
    environ = {**desk.environ, "FLEET_DISPATCH_REDIS_URL": url}
    said = say("enqueue", "--payload-file", job_file, "--lane", "A", "--json", environ=environ)
    assert said.code == 2
    assert json.loads(said.out)["error"]["kind"] == "unavailable"
    assert f"redis://:***@127.0.0.1:{desk.broker.port}/0" in said.err
    assert "fleet-dispatch broker" in said.err
    assert "hunter2" not in said.err + said.out


def _answer_all(desk: Desk, queues: dict[str, tuple[str, Status]], done: list[str]) -> None:
    pause = threading.Event()
    pending = dict(queues)
    for _ in range(1_000):
        for queue, (host, status) in list(pending.items()):
            for job_id in desk.queued(queue):
                desk.answer(job_id, host, status)
                done.append(job_id)
                pending.pop(queue, None)
        if not pending:
            return
        pause.wait(0.02)


def test_with_wait_the_exit_code_is_the_worst_of_all(say: Say, desk: Desk, job_file: str) -> None:
    answers = {
        "fd.lane.A@PC1": ("PC1", Status.RATE_LIMITED),
        "fd.lane.A@PC2": ("PC2", Status.TIMED_OUT),
    }
    done: list[str] = []
    host = threading.Thread(target=_answer_all, args=(desk, answers, done))
    host.start()
    words = ("--lane", "A", "--targets", "PC1,PC2", "--wait", "30", "--json")
    said = say("enqueue", "--payload-file", job_file, *words, environ=desk.environ)
    host.join()
    document = json.loads(said.out)
    assert said.code == document["exitCode"] == 4
    assert [job["status"] for job in document["jobs"]] == ["rate_limited", "timed_out"]
    assert document["jobs"][0]["result"]["changed_files"] == ["a.py"]
    assert all(job_id in said.err for job_id in done)


def test_a_wait_that_ends_first_is_exit_3(say: Say, desk: Desk, job_file: str) -> None:
    words = ("--lane", "A", "--wait", "0.1", "--json")
    said = say("enqueue", "--payload-file", job_file, *words, environ=desk.environ)
    (job,) = json.loads(said.out)["jobs"]
    assert (said.code, job["exitCode"], job["error"]["kind"]) == (3, 3, "wait_timed_out")


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "soon"])
def test_a_wait_that_is_no_span_of_time_is_exit_2_and_nothing_is_queued(
    seconds: str, say: Say, desk: Desk, job_file: str
) -> None:
    words = ("enqueue", "--lane", "A", "--payload-file", job_file, "--wait", seconds)
    assert say(*words, environ=desk.environ).code == 2
    assert desk.queued("fd.lane.A") == []
    assert say("wait", "a" * 20, "--timeout", seconds, environ=desk.environ).code == 2


def test_wait_and_result_show_the_verified_result(say: Say, desk: Desk, job_file: str) -> None:
    (job,) = _enqueue(say, desk, job_file, "--lane", "A")
    job_id = job["jobId"]
    nothing = say("result", job_id, "--json")
    assert nothing.code == 3
    assert json.loads(nothing.out)["error"]["kind"] == "wait_timed_out"
    desk.answer(job_id, "PC1", Status.APPROVAL_REQUIRED)

    waited = say("wait", job_id, job_id, "--timeout", "10", "--json")
    assert waited.code == 6
    (row,) = json.loads(waited.out)["jobs"]
    assert (row["status"], row["host"], row["alarms"]) == ("approval_required", "PC1", [])
    assert "PC1  approval_required  did it" in say("wait", job_id).out
    assert "the work is in /home/me/src/app-agents/x on PC1" in say("wait", job_id).err

    result = say("result", job_id)
    assert result.code == 6
    assert json.loads(result.out) == json.loads(result_with(Status.APPROVAL_REQUIRED).to_json())


def test_a_second_result_is_an_alarm_for_eyes_and_programs(
    say: Say, desk: Desk, job_file: str
) -> None:
    (job,) = _enqueue(say, desk, job_file, "--lane", "A")
    job_id = job["jobId"]
    desk.answer(job_id, "PC1")
    desk.answer(job_id, "PC2", Status.FAILED)
    said = say("result", job_id)
    assert said.code == 0
    assert "ALARM" in said.err
    assert len(json.loads(said.out)["alarms"]) == 1


def test_a_result_cannot_write_to_a_terminal(say: Say, desk: Desk, job_file: str) -> None:
    (job,) = _enqueue(say, desk, job_file, "--lane", "A")
    run = result_with(Status.COMPLETED, summary="\x1b[2Jred\u202e\nnext")
    desk.queue().store_result(job["jobId"], desk.sign_result(job["jobId"], "PC1", run=run))
    for words in (("result", job["jobId"]), ("wait", job["jobId"]), ("jobs",)):
        said = say(*words)
        assert said.code == 0
        assert not {"\x1b", "\u202e"} & set(said.out + said.err)
    assert json.loads(say("result", job["jobId"]).out)["summary"] == run.summary


@pytest.mark.parametrize("verb", ["wait", "result"])
def test_a_job_that_is_none_or_not_ours_is_refused(say: Say, desk: Desk, verb: str) -> None:
    malformed = say(verb, "../../etc", "--json", environ=desk.environ)
    assert json.loads(malformed.out)["error"]["kind"] == "invalid_request"
    strange = say(verb, "b" * 20)
    assert (malformed.code, strange.code) == (2, 2)
    assert "no record of job" in strange.err


def test_jobs_show_why_they_wait(say: Say, desk: Desk, job_file: str) -> None:
    (one,) = _enqueue(say, desk, job_file, "--lane", "A")
    (two,) = _enqueue(say, desk, job_file, "--lane", "A", "--targets", "PC1")
    FleetQueue.connect(desk.broker.url).show(two["jobId"], {"state": "started", "host": "PC1"})
    document = json.loads(say("jobs", "--json").out)
    rows = {row["jobId"]: row for row in document["jobs"]}
    assert rows[one["jobId"]]["state"] == "queued"
    assert rows[one["jobId"]]["why"] == "no listener serves lane A"
    assert rows[two["jobId"]]["state"] == "host_lost"
    assert rows[one["jobId"]]["mine"] is True
    assert "no listener serves lane A" in say("jobs", "--limit", "5").out


def test_hosts_show_live_and_silent_ones(say: Say, desk: Desk) -> None:
    desk.beat("PC1", "A", agents={"codex": "1.2.3"}, slots=4, free=3, version="0.1.0")
    with desk.broker.client() as redis:
        redis.zadd("fd:hosts", {"OLD": 1_000_000.0})
    document = json.loads(say("hosts", "--json", environ=desk.environ).out)
    rows = {row["host"]: row for row in document["hosts"]}
    assert (rows["PC1"]["state"], rows["PC1"]["agents"]) == ("live", {"codex": "1.2.3"})
    assert (rows["PC1"]["free"], rows["PC1"]["slots"]) == (3, 4)
    assert (rows["OLD"]["state"], rows["OLD"]["lastSeen"]) == ("host_lost", "1970-01-12T13:46:40Z")
    assert (rows["PC2"]["state"], rows["PC2"]["lastSeen"]) == ("never_seen", "")
    spoken = say("hosts").out
    assert "codex 1.2.3" in spoken
    assert "3/4" in spoken
    assert "never seen" in spoken


def test_doctor_finds_what_is_wrong(say: Say, desk: Desk, tmp_path: Path) -> None:
    whole = say("doctor", "--json", environ=desk.environ)
    assert (whole.code, json.loads(whole.out)["ok"]) == (0, True), whole.out
    assert {"installed files", "packages", "permissions", "broker", "agents"} <= {
        row["name"] for row in json.loads(whole.out)["checks"]
    }
    desk.settings.places.keys_dir.chmod(0o755)
    desk.broker.stop()
    broken = say("doctor", "--json")
    wrong = {row["name"] for row in json.loads(broken.out)["checks"] if row["state"] == "failed"}
    assert (broken.code, wrong) == (4, {"permissions", "broker"})
    assert "chmod 700" in say("doctor").out


def test_an_interrupted_wait_leaves_the_job_ids_and_no_traceback(
    desk: Desk, job_file: str, broker: Broker
) -> None:
    code = "from dispatch.cli import main; main()"
    words = ["enqueue", "--payload-file", job_file, "--lane", "A", "--wait", "60", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        env={**os.environ, **desk.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    first = process.stderr.readline()
    pause = threading.Event()
    for _ in range(500):
        with broker.client() as redis:
            if redis.pubsub_channels("fd:done:*"):
                break
        pause.wait(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    (job_id,) = desk.queued("fd.lane.A")
    assert first.startswith(job_id)
    assert process.returncode == 4
    assert json.loads(out)["error"]["kind"] == "interrupted"
    assert f"the job goes on (fleet-dispatch wait {job_id})" in err
    assert "Traceback" not in err


# Ctrl-C arrives while a destructor runs: Python prints that KeyboardInterrupt and drops it.
DROPPED = """
import signal
from dispatch.cli import main
from dispatch.commands.watch import Watch

class Dropped:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

look = Watch.look

def look_once(self):
    Watch.look = look
    Dropped()
    look(self)

Watch.look = look_once
main()
"""


def test_an_interrupt_that_python_drops_in_a_destructor_ends_the_wait_all_the_same(
    desk: Desk, job_file: str
) -> None:
    words = ["enqueue", "--payload-file", job_file, "--lane", "A", "--wait", "60", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", DROPPED, *words],
        env={**os.environ, **desk.environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    (job_id,) = desk.queued("fd.lane.A")
    assert "Exception ignored" in done.stderr, "it was dropped"
    assert json.loads(done.stdout)["error"]["kind"] == "interrupted"
    assert f"the job goes on (fleet-dispatch wait {job_id})" in done.stderr
