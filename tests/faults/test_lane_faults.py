"""Jobs of a lane whose hosts cannot all do them: none is lost, none starts twice, nobody spins."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from contracts import naming
from contracts.clock import SystemClock
from dispatch.key_store import create_sender
from tests.support.broker import Broker, running_broker
from tests.support.fleet import make_repository, wait_until
from tests.support.hosts import LANE, Host, Sender, make_host, make_sender

LANE_AUD = naming.lane_audience(LANE)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "broker") as server:
        yield server


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo", {"readme.txt": "hello\n"})


@contextmanager
def listening(*hosts: Host) -> Iterator[None]:
    """Start the hosts and wait until each of them is seen; stop them afterwards."""
    try:
        for host in hosts:
            host.start()
        with hosts[0].broker.client() as client:
            for host in hosts:
                key = naming.host_key(host.name)
                wait_until(lambda key=key: bool(client.exists(key)), "a heartbeat")
        yield
    finally:
        for host in hosts:
            host.stop()


def fill_disk(host: Host) -> None:
    """Let no file of the listener grow any more, as a full disk does."""
    assert host.process is not None
    resource.prlimit(host.process.pid, resource.RLIMIT_FSIZE, (4_096, resource.RLIM_INFINITY))


def free_disk(host: Host) -> None:
    assert host.process is not None
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(host.process.pid, resource.RLIMIT_FSIZE, unlimited)


def other_sender(folder: Path, name: str) -> Sender:
    create_sender(folder / name, name, SystemClock())
    return Sender(folder / name, name)


def test_a_host_leaves_a_lane_job_of_a_sender_it_does_not_know_to_one_that_does(
    broker: Broker, repo: Path, tmp_path: Path
) -> None:
    knows = make_host(tmp_path, broker, make_sender(tmp_path / "sender"), repo, "KNOWS")
    stranger = make_host(tmp_path, broker, other_sender(tmp_path, "bob"), repo, "STRANGER")
    with listening(stranger, knows):
        jobs = [knows.push(knows.job(aud=LANE_AUD)) for _ in range(6)]
        jobs += [stranger.push(stranger.job(aud=LANE_AUD)) for _ in range(2)]
        for job_id in jobs[:6]:
            assert knows.result(job_id).host == knows.name
        for job_id in jobs[6:]:
            assert stranger.result(job_id).host == stranger.name
        assert (knows.starts, stranger.starts) == (6, 2)
        assert knows.dead_letters() == []


def test_a_lane_job_that_no_host_of_the_lane_can_verify_is_buried_once_all_have_seen_it(
    broker: Broker, repo: Path, tmp_path: Path
) -> None:
    one = make_host(tmp_path, broker, make_sender(tmp_path / "sender"), repo, "ONE")
    two = make_host(tmp_path, broker, other_sender(tmp_path, "bob"), repo, "TWO")
    carol = other_sender(tmp_path, "carol")
    with listening(one, two), broker.client() as client:
        claims = carol.claims(aud=LANE_AUD, payload=one.payload())
        job_id = one.push(claims, envelope=carol.sign(claims))
        one.wait_for_dead_letter("unknown_key")
        assert [letter["jobId"] for letter in one.dead_letters()] == [job_id]
        assert client.llen(naming.rq_list(naming.lane_queue(LANE))) == 0
        one.run_honest_job()
        assert one.starts + two.starts == 1


def test_a_host_whose_disk_is_full_gives_a_lane_job_back_to_the_others(
    broker: Broker, repo: Path, tmp_path: Path
) -> None:
    sender = make_sender(tmp_path / "sender")
    full, able = (make_host(tmp_path, broker, sender, repo, name) for name in ("FULL", "ABLE"))
    with listening(full):
        full.run_honest_job()
        fill_disk(full)
        with listening(able):
            assert full.process is not None
            before = psutil.Process(full.process.pid).cpu_times().user
            for _ in range(4):
                assert able.result(able.push(able.job(aud=LANE_AUD))).host == able.name
            assert psutil.Process(full.process.pid).cpu_times().user - before < 1.5
        job_id = full.push(full.job(aud=LANE_AUD))  # alone now: it waits for the disk
        free_disk(full)
        assert full.result(job_id).host == full.name
        assert full.starts == 2


def claimed_then_full(host: Host) -> str:
    """Return a job that will be declined, claimed just before the disk filled up."""
    for _ in range(10):
        # Allowed, and not there: a run process finds that out, which leaves the time to act.
        payload = host.payload(repo=str(host.home.parent / "missing"))
        job_id = host.push(host.job(aud=LANE_AUD, payload=payload))
        wait_until(lambda job=job_id: f"claimed job={job}" in host.log, "it is claimed")
        fill_disk(host)
        if f"declined job={job_id}" not in host.log:
            return job_id
        free_disk(host)  # a slow moment: it was declined before the disk was full
        host.result(job_id)
    raise AssertionError("the disk was never full in time")


def test_a_job_that_is_declined_while_the_disk_is_full_still_ends(
    broker: Broker, repo: Path, tmp_path: Path
) -> None:
    host = make_host(tmp_path, broker, make_sender(tmp_path / "sender"), repo)
    with listening(host):
        host.run_honest_job()
        job_id = claimed_then_full(host)
        wait_until(lambda: f"journal_unavailable job={job_id}" in host.log, "the disk is full")
        free_disk(host)
        assert host.result(job_id).status == "failed"
        host.run_honest_job()


def test_two_machines_under_one_name_start_a_lane_job_once_and_say_so(
    broker: Broker, repo: Path, tmp_path: Path
) -> None:
    sender = make_sender(tmp_path / "sender")
    one, two = (make_host(tmp_path / place, broker, sender, repo, "SAME") for place in ("a", "b"))
    for host in (one, two):
        policy = host.fleet_home / "policy.toml"
        policy.write_text(policy.read_text().replace(str(host.home.parent), str(tmp_path)))
    with listening(one):
        waiting = one.payload(task="wait until released")
        job_id = one.push(one.job(aud=LANE_AUD, payload=waiting))
        wait_until(lambda: one.starts == 1, "the agent has started")
        with listening(two):  # its start gives back what stands as taken under its name
            wait_until(lambda: "another_listener_has_this_name" in one.log + two.log, "it is said")
            wait_until(lambda: f"claimed_elsewhere job={job_id}" in two.log, "two looks at it")
            (one.home / "released").touch()
            (two.home / "released").touch()
            assert one.result(job_id).status == "completed"
            assert (one.starts, two.starts) == (1, 0)
