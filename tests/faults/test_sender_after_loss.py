"""Broker emptied, as the sender sees it: its own verbs bring a lost job back, or say why not.

One machine is sender and host; everything goes through the installed command.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contracts import naming
from tests.support.broker import Broker
from tests.support.fleet import Machine, make_repository, place_program, wait_until
from tests.support.hosts import AGENT, NO_BOX

LANE = "BUILD"


@pytest.fixture
def machine(broker: Broker, tmp_path: Path) -> Iterator[Machine]:
    home = tmp_path / "home"
    home.mkdir()
    make_repository(tmp_path / "src" / "app", {"a": "b\n"})
    place_program(tmp_path / "programs", "codex", AGENT)
    machine = Machine(home, tmp_path / "programs", broker.url, "NORTH")
    machine.succeed(
        "init", "--host", "NORTH", "--lanes", LANE, "--repo-root", str(tmp_path / "src")
    )
    with (home / "fleet" / "config.toml").open("a") as config:
        config.write(NO_BOX)
    yield machine
    (home / "released").touch()


def send(machine: Machine, *more: str, task: str = "Do it.") -> str:
    repo = machine.home.parent / "src" / "app"
    payload = {"agent": "codex", "task": task, "repo": str(repo), "ticket": "T-1"}
    words = ("enqueue", "--lane", LANE, "--payload-file", "-", "--json", *more)
    (job,) = json.loads(machine.succeed(*words, stdin=json.dumps(payload)))["jobs"]
    return str(job["jobId"])


def starts(machine: Machine) -> int:
    path = machine.home / "starts"
    return len(path.read_text().splitlines()) if path.exists() else 0


def row_of(machine: Machine, job_id: str) -> dict[str, Any]:
    return next(row for row in machine.read_json("jobs")["jobs"] if row["jobId"] == job_id)


def wait_for(machine: Machine, job_id: str) -> str:
    waited = machine.run("wait", job_id, "--timeout", "120", "--json", seconds=170)
    assert waited.returncode == 0, waited.stdout + waited.stderr
    return str(json.loads(waited.stdout)["jobs"][0]["status"])


def empty(broker: Broker) -> None:
    with broker.client() as connection:
        connection.flushall()


def restart_without_its_file(broker: Broker) -> None:
    broker.kill()
    for file in (broker.folder / "appendonlydir").iterdir():
        file.unlink()
    broker.start()


LOSSES = pytest.mark.parametrize("lose", [empty, restart_without_its_file])


@LOSSES
def test_a_queued_job_that_was_lost_is_pushed_again_by_the_wait_and_runs_once(
    lose: Callable[[Broker], None], machine: Machine, broker: Broker
) -> None:
    """K62: the sender's record outlives the broker's data."""
    job_id = send(machine, "--targets", "NORTH")
    lose(broker)
    with machine.listening(LANE):
        assert wait_for(machine, job_id) == "completed"
        assert machine.read_json("sweep")["jobs"] == [], "nothing is left to be done"
    assert starts(machine) == 1


@LOSSES
def test_a_result_that_was_lost_before_the_sender_saw_it_is_brought_by_sending_again(
    lose: Callable[[Broker], None], machine: Machine, broker: Broker
) -> None:
    with machine.listening(LANE) as listener:
        job_id = send(machine, "--targets", "NORTH")
        wait_until(lambda: f"published job={job_id}" in listener.text(), "it has ended", 60)
        lose(broker)
        assert wait_for(machine, job_id) == "completed"
    assert starts(machine) == 1


def test_a_running_job_of_a_lane_is_not_queued_again_by_itself_and_says_so(
    machine: Machine, broker: Broker
) -> None:
    """Until its host beats again nobody can know; then the host's own word is what is shown."""
    with machine.listening(LANE) as listener:
        job_id = send(machine, task="wait until released")
        wait_until(lambda: starts(machine) == 1, "the agent has started")
        os.kill(listener.pid, signal.SIGSTOP)
        try:
            empty(broker)
            row = row_of(machine, job_id)
            swept = machine.read_json("sweep")["jobs"]
        finally:
            os.kill(listener.pid, signal.SIGCONT)
        assert row["state"] == "claim_unknown"
        assert f"fleet-dispatch sweep {job_id} --resend-lane" in row["why"]
        assert swept == [{"jobId": job_id, "did": "claim_unknown"}]
        wait_until(lambda: row_of(machine, job_id)["state"] == "started", "its host beats again")
        assert row_of(machine, job_id)["host"] == "NORTH"
        machine.read_json("sweep")
        with broker.client() as connection:
            assert connection.llen(naming.rq_list(naming.lane_queue(LANE))) == 0
        (machine.home / "released").touch()
        wait_until(lambda: f"published job={job_id}" in listener.text(), "it has ended", 60)
        assert wait_for(machine, job_id) == "completed"
    assert starts(machine) == 1


def test_a_lane_job_that_a_person_sends_again_starts_no_second_time_on_the_host_that_had_it(
    machine: Machine, broker: Broker
) -> None:
    with machine.listening(LANE) as listener:
        job_id = send(machine)
        wait_until(lambda: f"published job={job_id}" in listener.text(), "it has ended", 60)
        empty(broker)
        (row,) = machine.read_json("sweep", job_id, "--resend-lane")["jobs"]
        assert row == {"jobId": job_id, "did": "queued"}
        assert wait_for(machine, job_id) == "completed"
    assert starts(machine) == 1
