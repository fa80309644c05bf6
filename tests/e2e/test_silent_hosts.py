"""Silence is seen and not judged: a host that stops answering, and one that was stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import Broker, running_broker
from tests.support.fleet import wait_until
from tests.support.host_acts import asleep
from tests.support.hosts import Host, listening_host
from tests.support.sender_desk import SenderDesk


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "broker") as server:
        yield server


@pytest.fixture
def host(broker: Broker, tmp_path: Path) -> Iterator[Host]:
    with listening_host(tmp_path, broker) as listening:
        yield listening


def host_row(desk: SenderDesk) -> dict[str, object]:
    (row,) = desk.read_json("hosts")["hosts"]
    return dict(row)


def test_who_waits_is_told_of_silence_once_and_gets_the_result_when_the_host_is_back(
    host: Host,
) -> None:
    desk = SenderDesk.of(host)
    job_id = desk.enqueue(host, task="wait until released")["jobId"]
    wait_until(lambda: host.starts == 1, "the agent has started")
    process = desk.start("wait", job_id, "--json")
    try:
        with asleep(host):
            wait_until(lambda: host_row(desk)["state"] == "host_lost", "hosts shows it", 60)
            wait_until(lambda: desk.row(job_id)["state"] == "host_lost", "jobs shows it", 60)
            text = desk.succeed("jobs") + desk.succeed("hosts")
            assert text.count("host_lost (last seen ") == 2
            assert process.stderr is not None
            assert process.stderr.readline().startswith(f"note: {job_id} host_lost (last seen ")
            assert process.poll() is None, "it is still waited for"
        wait_until(lambda: host_row(desk)["state"] == "live", "the host is back", 60)
        assert "answers again" in process.stderr.readline()
        host.release()
        out, said = process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate(timeout=60)
    assert (process.returncode, said.count("host_lost")) == (0, 0)
    (row,) = json.loads(out)["jobs"]
    assert row["status"] == "completed"
    assert [note.split()[0] for note in row["notes"]] == ["host_lost", host.name]
    assert host.starts == 1


def test_a_host_that_was_stopped_in_order_says_so_and_its_queued_jobs_too(host: Host) -> None:
    desk = SenderDesk.of(host)
    wait_until(lambda: host_row(desk)["state"] == "live", "a heartbeat", 60)
    assert host.stop() == 0
    row = host_row(desk)
    assert (row["state"], bool(row["stoppedAt"])) == ("stopped", True)
    job = desk.enqueue(host)
    why = f"host {host.name} was stopped at {row['stoppedAt']}"
    assert job["note"] == f"queued: {why}"
    shown = desk.row(job["jobId"])
    assert (shown["state"], shown["why"]) == ("queued", why)
    waited = desk.run("wait", job["jobId"], "--timeout", "0.1")
    assert f"queued: {why}" in waited.stderr
    host.start()
    wait_until(lambda: host_row(desk)["state"] == "live", "a heartbeat")
    done = desk.read_json("wait", job["jobId"], "--timeout", "120")["jobs"][0]
    assert done["status"] == "completed"


def test_a_job_queued_for_a_host_that_died_is_shown_as_lost_and_runs_when_it_is_back(
    host: Host,
) -> None:
    desk = SenderDesk.of(host)
    wait_until(lambda: host_row(desk)["state"] == "live", "a heartbeat", 60)
    host.kill()
    job_id = desk.enqueue(host)["jobId"]
    wait_until(lambda: desk.row(job_id)["state"] == "host_lost", "silence is seen", 60)
    host.start()
    assert desk.read_json("wait", job_id, "--timeout", "120")["jobs"][0]["status"] == "completed"
