"""Broker down: away, or stalling, at the moment when a run ends, and when a listener starts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from contracts import naming
from contracts.clock import SystemClock
from tests.support.broker import Broker, running_broker
from tests.support.fleet import Machine, make_repository, place_program, wait_until
from tests.support.hosts import AGENT, NO_BOX, Host, make_host, make_sender
from tests.support.proxy import Proxy, proxy_to
from worker.journal.journal import Journal


@pytest.fixture
def proxy(broker: Broker) -> Iterator[Proxy]:
    with proxy_to(broker.port) as between:
        yield between


@pytest.fixture
def behind(proxy: Proxy, broker: Broker, tmp_path: Path) -> Iterator[Host]:
    """A listening host that reaches the broker through the proxy alone."""
    repo = make_repository(tmp_path / "repo", {"readme.txt": "hello\n"})
    host = make_host(
        tmp_path,
        broker,
        make_sender(tmp_path / "sender"),
        repo,
        extra={"FLEET_DISPATCH_REDIS_URL": proxy.url},
    )
    host.start()
    try:
        yield host
    finally:
        proxy.flow()
        host.stop()


def sealed_result(host: Host, job_id: str) -> bytes:
    """Return the signed result that the host keeps and has not delivered."""
    journal = Journal(host.journal_file, SystemClock())
    record = journal.find(job_id)
    journal.close()
    assert record is not None
    assert record.sealed is not None
    assert record.published_at is None
    return record.sealed.encode()


def assert_delivered_once(host: Host, job_id: str, sealed: bytes) -> None:
    assert host.result(job_id).status == "completed"
    assert host.stored(job_id) == sealed, "byte for byte what was kept"
    host.published(job_id)
    with host.broker.client() as connection:
        assert not connection.exists(naming.other_results_key(job_id))
    assert host.journal_history(job_id).count("published") == 1


def test_a_result_that_could_not_be_sent_is_delivered_later_byte_for_byte(host: Host) -> None:
    """K66: a final report outlives the broker's absence."""
    job_id = host.start_waiting_job()
    host.broker.kill()
    host.release()
    wait_until(lambda: f"done job={job_id}" in host.log, "the run ends without a broker")
    wait_until(lambda: "results_wait" in host.log, "the outbox says that it waits")
    sealed = sealed_result(host, job_id)
    host.broker.start()
    assert_delivered_once(host, job_id, sealed)
    assert host.log.count("broker_away") == 1, "it is said once"
    assert host.log.count("results_wait") == 1
    host.run_honest_job()
    assert host.starts == 2


def test_a_result_survives_the_death_of_broker_and_listener_both(host: Host) -> None:
    """K66: and the end of the process that made it."""
    job_id = host.start_waiting_job()
    host.broker.kill()
    host.release()
    wait_until(lambda: f"done job={job_id}" in host.log, "the run ends without a broker")
    sealed = sealed_result(host, job_id)
    host.kill()
    host.broker.start()
    host.start()
    assert_delivered_once(host, job_id, sealed)


def test_a_drain_without_a_broker_ends_and_the_next_start_delivers(host: Host) -> None:
    """K66: a listener that is shut down in an outage leaves its report in the journal."""
    job_id = host.start_waiting_job()
    host.broker.kill()
    host.release()
    wait_until(lambda: f"done job={job_id}" in host.log, "the run ends without a broker")
    assert host.stop(seconds=90) == 0
    sealed = sealed_result(host, job_id)
    host.broker.start()
    host.start()
    assert_delivered_once(host, job_id, sealed)


def test_a_result_that_stalls_on_its_way_arrives_once_when_bytes_pass_again(
    behind: Host, proxy: Proxy
) -> None:
    job_id = behind.start_waiting_job()
    proxy.stall()
    behind.release()
    wait_until(lambda: f"done job={job_id}" in behind.log, "the run ends meanwhile")
    wait_until(lambda: "results_wait" in behind.log, "the outbox gives the silence up", 90)
    sealed = sealed_result(behind, job_id)
    proxy.flow()
    assert_delivered_once(behind, job_id, sealed)
    behind.run_honest_job()
    assert behind.starts == 2


def test_a_result_whose_answer_is_cut_off_is_stored_once(behind: Host, proxy: Proxy) -> None:
    """The broker has it and the host does not know: it sends the same bytes again."""
    job_id = behind.start_waiting_job()
    behind.release()
    for _ in range(20):  # links that break all the time, whatever is on its way
        proxy.cut()
        if behind.stored(job_id) is not None:
            break
        wait_until(lambda: True, "a moment", 1)
    stored = behind.stored(job_id) or b""
    assert behind.result(job_id).status == "completed"
    proxy.cut()
    behind.published(job_id)
    assert stored in (b"", behind.stored(job_id))
    with behind.broker.client() as connection:
        assert not connection.exists(naming.other_results_key(job_id))
    behind.run_honest_job()


def test_a_wait_that_began_before_the_outage_ends_with_the_result(tmp_path: Path) -> None:
    """The sender's side: its `wait` stays, and the result that comes late is the answer."""
    home = tmp_path / "home"
    home.mkdir()
    repo = make_repository(tmp_path / "src" / "app", {"a": "b\n"})
    place_program(tmp_path / "programs", "codex", AGENT)
    payload = {"agent": "codex", "task": "wait until released", "repo": str(repo), "ticket": "T-1"}
    with running_broker(tmp_path / "broker", fsync="always") as broker:
        machine = Machine(home, tmp_path / "programs", broker.url, "NORTH")
        roots = ("--repo-root", str(tmp_path / "src"))
        machine.succeed("init", "--host", "NORTH", "--lanes", "BUILD", *roots)
        with (home / "fleet" / "config.toml").open("a") as config:
            config.write(NO_BOX)
        with machine.listening("BUILD") as listener, ThreadPoolExecutor() as pool:
            words = ("enqueue", "--lane", "BUILD", "--payload-file", "-", "--json")
            (job,) = json.loads(machine.succeed(*words, stdin=json.dumps(payload)))["jobs"]
            wait_until((home / "starts").exists, "the agent has started")
            waiting = pool.submit(
                machine.run, "wait", job["jobId"], "--timeout", "150", "--json", seconds=170
            )
            with broker.client() as connection:
                channel = naming.done_channel(job["jobId"])
                wait_until(
                    lambda: dict(connection.pubsub_numsub(channel))[channel.encode()] > 0,
                    "somebody waits",
                )
            broker.kill()
            (home / "released").touch()
            wait_until(lambda: f"done job={job['jobId']}" in listener.text(), "the run ends")
            broker.start()
            waited = waiting.result()
    assert waited.returncode == 0, waited.stderr
    assert json.loads(waited.stdout)["jobs"][0]["status"] == "completed"


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
