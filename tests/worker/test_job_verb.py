"""`job show`, `jobs --local` and `result --local`: the journal answers, nobody else is asked."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.ids import new_job_id
from tests.support.broker import Broker
from tests.support.fleet import PROGRAM, wait_until
from tests.support.hosts import Host, listening_host


@pytest.fixture
def host(broker: Broker, tmp_path: Path) -> Iterator[Host]:
    with listening_host(tmp_path, broker) as listening:
        yield listening


def verb(host: Host, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *words],
        env=host.environment,
        cwd=host.home,
        capture_output=True,
        text=True,
        timeout=120,
    )


def document(host: Host, *words: str) -> dict[str, object]:
    done = verb(host, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_host_shows_the_whole_history_of_a_job_without_its_broker(host: Host) -> None:
    result = host.run_honest_job()
    job_id = result.jobId
    host.published(job_id)
    host.broker.kill()
    shown = document(host, "job", "show", job_id)
    history = shown["history"]
    assert isinstance(history, list)
    states = ["claimed", "started", "agent_done", "validated", "done", "published"]
    assert [row["state"] for row in history] == states
    assert [row["attempt"] for row in history[1:4]] == [1, 1, 1]
    assert all(row["pid"] > 0 and row["at"].endswith("Z") for row in history)
    assert (shown["status"], shown["sender"], shown["delivered"]) == ("completed", "alice", True)
    assert shown["result"]["status"] == "completed"  # type: ignore[index]
    assert shown["tree"]["path"] == result.worktreePath  # type: ignore[index]
    processes = shown["processes"]
    assert isinstance(processes, list)
    assert {"run", "warden of run"} <= {row["role"] for row in processes}
    assert all(row["endedAt"] for row in processes)
    (row,) = document(host, "jobs", "--local")["jobs"]  # type: ignore[misc]
    assert (row["jobId"], row["status"]) == (job_id, "completed")

    text = verb(host, "job", "show", job_id).stdout
    assert "agent_done" in text and "warden of run" in text and result.worktreePath in text
    assert "completed" in verb(host, "jobs", "--local").stdout
    local = verb(host, "result", job_id, "--local")
    assert json.loads(local.stdout) == json.loads(result.to_json())
    assert json.loads(verb(host, "result", job_id).stdout) == json.loads(local.stdout), (
        "the host that ran it has it, whoever sent it and whatever the broker does"
    )


def test_a_job_that_runs_is_shown_as_that_and_its_result_is_not_there_yet(host: Host) -> None:
    job_id = host.push(host.job(payload=host.payload(task="wait until released")))
    wait_until(lambda: host.starts == 1, "the agent has started", 60)
    shown = document(host, "job", "show", job_id)
    assert (shown["state"], shown["result"], shown["delivered"]) == ("started", None, False)
    processes = shown["processes"]
    assert isinstance(processes, list)
    assert all(not row["endedAt"] for row in processes)
    assert "not ended" in verb(host, "job", "show", job_id).stdout
    assert verb(host, "result", job_id, "--local").returncode == 3
    (host.home / "released").touch()
    host.result(job_id)


def test_what_this_host_never_had_is_refused_with_a_remedy(host: Host, tmp_path: Path) -> None:
    for words in (("job", "show"), ("result", "--local"), ("result",)):
        done = verb(host, *words, new_job_id())
        assert done.returncode == 2, done.stdout
        assert "(" in done.stderr
    host.extra = {"FLEET_DISPATCH_HOME": str(tmp_path / "nothing")}
    done = verb(host, "jobs", "--local")
    assert done.returncode == 2
    assert "no journal" in done.stderr
    assert not (tmp_path / "nothing").exists(), "looking makes none"
    host.extra = {}
