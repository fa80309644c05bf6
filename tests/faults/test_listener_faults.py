"""The listener under faults: kills at every step, and a broker that comes and goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from contracts import naming
from contracts.clock import SystemClock
from tests.support.broker import Broker, running_broker
from tests.support.fleet import make_repository, wait_until
from tests.support.hosts import LANE, Host, listening_host, make_host, make_sender
from worker.journal import Journal

LANE_AUD = naming.lane_audience(LANE)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "broker", fsync="always") as server:
        yield server


@pytest.fixture
def host(broker: Broker, tmp_path: Path) -> Iterator[Host]:
    with listening_host(tmp_path, broker) as listening:
        yield listening


def start_waiting_job(host: Host, *, aud: str | None = None) -> str:
    starts = host.starts
    payload = host.payload(task="wait until released")
    job_id = host.push(host.job(aud=aud, payload=payload))
    wait_until(lambda: host.starts > starts, "the agent has started")
    return job_id


def release(host: Host) -> None:
    (host.home / "released").touch()


def run_processes(host: Host) -> list[psutil.Process]:
    assert host.process is not None
    return psutil.Process(host.process.pid).children(recursive=True)


def all_gone(processes: list[psutil.Process]) -> bool:
    return not any(process.is_running() for process in processes)


@pytest.mark.parametrize("aud", [None, LANE_AUD], ids=["for the host", "for the lane"])
def test_a_killed_listener_ends_its_job_as_lost_and_starts_nothing_again(
    aud: str | None, host: Host
) -> None:
    job_id = start_waiting_job(host, aud=aud)
    family = run_processes(host)
    host.kill()
    wait_until(lambda: all_gone(family), "nothing of the run is left", 10)
    host.start()
    result = host.result(job_id, seconds=30)
    assert result.status == "failed"
    assert [risk.code for risk in result.risks] == ["listener_lost"]
    assert (Path(result.worktreePath) / "starts.txt").exists(), "the work is kept and named"
    release(host)
    host.run_honest_job()
    assert host.starts == 2
    history = host.journal_history(job_id)
    assert history[:2] == ["claimed", "started"]
    assert history[-3:] == ["interrupted", "done", "published"]


def test_a_killed_run_process_ends_its_job_and_the_listener_goes_on(host: Host) -> None:
    job_id = start_waiting_job(host)
    family = run_processes(host)
    run = next(item for item in family if "worker.run_process" in " ".join(item.cmdline()[-1:]))
    run.kill()
    result = host.result(job_id)
    assert [risk.code for risk in result.risks] == ["run_process_died"]
    assert result.worktreePath
    wait_until(lambda: all_gone(family), "nothing of the run is left", 10)
    release(host)
    host.run_honest_job()


@pytest.mark.parametrize("aud", [None, LANE_AUD], ids=["for the host", "for the lane"])
def test_a_job_that_was_taken_and_not_claimed_is_taken_again(aud: str | None, host: Host) -> None:
    assert host.stop() == 0
    job_id = host.push(host.job(aud=aud))
    queue = host.queue_name if aud is None else naming.lane_queue(LANE)
    with host.broker.client() as connection:
        taken = naming.taken_list(queue, host.name)
        connection.lmove(naming.rq_list(queue), taken, "LEFT", "RIGHT")
        host.start()
        assert host.result(job_id).status == "completed"
        wait_until(lambda: connection.llen(taken) == 0, "nothing stays taken")
    assert host.starts == 1


def test_a_result_that_could_not_be_sent_is_delivered_later_byte_for_byte(host: Host) -> None:
    job_id = start_waiting_job(host)
    host.broker.kill()
    release(host)
    wait_until(lambda: f"done job={job_id}" in host.log, "the run ends without a broker")
    wait_until(lambda: "broker_away" in host.log and "results_wait" in host.log, "it is said")
    sealed = sealed_result(host, job_id)
    host.broker.start()
    assert host.result(job_id).status == "completed"
    assert host.stored(job_id) == sealed.encode()
    host.published(job_id)
    with host.broker.client() as connection:
        assert not connection.exists(naming.other_results_key(job_id))
    assert host.log.count("broker_away") == 1, "it is said once"
    assert host.log.count("results_wait") == 1
    host.run_honest_job()
    assert host.starts == 2


def test_a_result_survives_the_death_of_broker_and_listener_both(host: Host) -> None:
    job_id = start_waiting_job(host)
    host.broker.kill()
    release(host)
    wait_until(lambda: f"done job={job_id}" in host.log, "the run ends without a broker")
    sealed = sealed_result(host, job_id)
    host.kill()
    host.broker.start()
    host.start()
    assert host.result(job_id).status == "completed"
    assert host.stored(job_id) == sealed.encode()


def sealed_result(host: Host, job_id: str) -> str:
    journal = Journal(host.journal_file, SystemClock())
    record = journal.find(job_id)
    journal.close()
    assert record is not None
    assert record.sealed is not None
    assert record.published_at is None
    return record.sealed


def test_a_broker_that_restarts_loses_and_repeats_no_queued_job(host: Host) -> None:
    running = start_waiting_job(host)
    waiting = [host.push(host.job(aud=aud)) for aud in (None, LANE_AUD, None)]
    host.broker.restart()
    release(host)
    for job_id in (running, *waiting):
        assert host.result(job_id).status == "completed"
    assert host.starts == 4


def test_a_listener_starts_without_a_broker_and_works_when_there_is_one(
    broker: Broker, tmp_path: Path
) -> None:
    repo = make_repository(tmp_path / "repo", {"a": "b\n"})
    host = make_host(tmp_path, broker, make_sender(tmp_path / "sender"), repo)
    broker.kill()
    host.start()
    try:
        wait_until(lambda: "broker_away" in host.log, "it says that the broker is away")
        broker.start()
        host.run_honest_job()
        assert "broker_back" in host.log
    finally:
        host.stop()


def test_a_broker_that_hangs_is_left_and_found_again(host: Host) -> None:
    host.broker.suspend()
    try:
        wait_until(lambda: "broker_away" in host.log, "the listener notices", 90)
    finally:
        host.broker.resume()
    host.run_honest_job()


def test_a_full_broker_stops_no_listener(host: Host) -> None:
    job_id = start_waiting_job(host)
    with host.broker.client() as connection:
        connection.config_set("maxmemory", 1)
        release(host)
        wait_until(lambda: "results_wait" in host.log, "the result waits")
        connection.config_set("maxmemory", 0)
    assert host.result(job_id).status == "completed"
    host.run_honest_job()


def test_an_emptied_broker_gets_the_result_again_when_the_sender_sends_again(host: Host) -> None:
    claims = host.job()
    envelope = host.sender.sign(claims)
    first = host.result(host.push(claims, envelope=envelope))
    host.published(first.jobId)
    with host.broker.client() as connection:
        connection.flushall()
    host.push(claims, envelope=envelope)
    assert host.result(first.jobId) == first
    assert host.starts == 1


def test_a_lost_journal_refuses_what_was_issued_before(host: Host) -> None:
    claims = host.job()
    envelope = host.sender.sign(claims)
    host.result(host.push(claims, envelope=envelope))
    assert host.stop() == 0
    for file in host.journal_file.parent.glob("journal.sqlite3*"):
        file.unlink()
    host.start()
    with host.broker.client() as connection:
        connection.flushall()
    host.push(claims, envelope=envelope)
    host.wait_for_dead_letter("before_epoch")
    assert host.stored(claims["jti"]) is None
    assert host.starts == 1
    later = host.job()
    later["iat"] += 5
    assert host.result(host.push(later)).status == "completed"


def test_many_jobs_leave_no_zombies(host: Host) -> None:
    host.stop()
    host.options = ("--concurrency", "2")
    host.start()
    for job_id in [host.push(host.job(payload=host.payload(repo="/nowhere"))) for _ in range(20)]:
        host.result(job_id)
    host.run_honest_job()
    assert host.process is not None
    children = psutil.Process(host.process.pid).children()
    assert [child for child in children if child.status() == psutil.STATUS_ZOMBIE] == []
