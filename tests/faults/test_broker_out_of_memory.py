"""Broker out of memory: it fails closed with a clear error, on both sides."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from contracts import naming
from tests.support.broker import Broker, running_broker
from tests.support.fleet import Machine, make_repository, wait_until
from tests.support.hosts import Host

FULL = "is full (maxmemory) and takes nothing new"


def test_a_full_broker_stops_no_listener_and_the_result_comes_later(host: Host) -> None:
    job_id = host.start_waiting_job()
    with host.broker.client() as connection:
        connection.config_set("maxmemory", 1)
        host.release()
        wait_until(lambda: "results_wait" in host.log, "the result waits")
        assert host.stored(job_id) is None
        connection.config_set("maxmemory", 0)
    assert host.result(job_id).status == "completed"
    host.run_honest_job()


def fill(broker: Broker) -> None:
    """Fill the broker with what is not ours, and then let it have 2 MB and no more."""
    with broker.client() as connection:
        connection.set("somebody-elses", b"x" * 3_000_000)
        connection.config_set("maxmemory", "2mb")


def enqueue(machine: Machine, repo: Path, *more: str) -> subprocess.CompletedProcess[str]:
    payload = {"agent": "codex", "task": "Do it.", "repo": str(repo), "ticket": "T-1"}
    words = ("--lane", "BUILD", "--payload-file", "-")
    return machine.run("enqueue", *words, *more, stdin=json.dumps(payload))


def test_an_enqueue_into_a_full_broker_is_refused_whole_and_says_why(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "src" / "app", {"a": "b\n"})
    home = tmp_path / "home"
    home.mkdir()
    with running_broker(tmp_path / "broker") as broker:
        machine = Machine(home, tmp_path / "programs", broker.url, "NORTH")
        roots = ("--repo-root", str(tmp_path / "src"))
        machine.succeed("init", "--host", "NORTH", "--lanes", "BUILD", *roots)
        fill(broker)
        refused = enqueue(machine, repo, "--json")
        assert refused.returncode == 2, refused.stderr
        assert FULL in refused.stderr + refused.stdout
        assert "raise its maxmemory" in refused.stderr + refused.stdout
        assert "Traceback" not in refused.stderr
        json.loads(refused.stdout)
        with broker.client() as connection:
            assert connection.keys("*") == [b"somebody-elses"], "nothing of it was written"
            assert connection.delete("somebody-elses") == 1
            assert enqueue(machine, repo).returncode == 0
            queue = naming.rq_list(naming.lane_queue("BUILD"))
            assert connection.llen(queue) == 1, "and nothing came twice"
