"""The doctor's checks of broker, disks and journal, with the thing that each looks at broken."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import time
from pathlib import Path

import psutil
import pytest
import redis

from tests.support.broker import Broker, running_broker
from tests.support.fleet import make_repository, wait_until
from tests.support.hosts import LANE, Host, make_host, make_sender
from tests.support.patient import (
    FAILED,
    OK,
    WARNING,
    assert_only,
    claim,
    journal_of,
    look,
    states,
    write_config,
)
from tests.support.volumes import fill, small_volume
from worker.diagnosis.broker import _version_of
from worker.diagnosis.disks import volume_of
from worker.diagnosis.finding import FindingState
from worker.journal.host_lease import LEASE_KIND
from worker.journal.processes import RecordedProcess
from worker.journal.schema import JobState


@pytest.fixture
def host(whole_host: Host) -> Host:
    return whole_host


# --- the broker --------------------------------------------------------------------------------
def test_a_broker_that_is_away_is_found(host: Host) -> None:
    host.broker.kill()
    assert_only(look(host), "broker", FAILED, "no broker answers")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("appendonly", "no"),
        ("appendfsync", "no"),
        ("maxmemory-policy", "allkeys-lru"),
        ("protected-mode", "no"),
    ],
)
def test_a_broker_that_is_set_up_to_lose_jobs_is_found(
    setting: str, value: str, host: Host
) -> None:
    with host.broker.client() as connection:
        connection.config_set(setting, value)
    assert_only(look(host), "broker settings", FAILED, f"{setting} {value}", "redis.conf")


def test_a_broker_that_is_nearly_full_is_found(host: Host) -> None:
    with host.broker.client() as connection:
        connection.config_set("maxmemory", int(connection.info("memory")["used_memory"]) + 10_000)
        found = look(host)
        connection.config_set("maxmemory", 0)
    assert_only(found, "broker memory", WARNING, "maxmemory")


def test_a_broker_that_tells_our_role_nothing_is_a_warning(host: Host) -> None:
    with host.broker.client() as connection:
        connection.execute_command(
            "ACL", "SETUSER", "default", "-config", "-info", "-time", "-acl|log"
        )
    found = look(host)
    assert states(found, FAILED) == set()
    assert {"broker settings", "broker memory", "clock"} <= states(found, WARNING)
    assert "cannot be read" in found["broker settings"].what


def test_a_role_that_may_not_read_settings_is_told_what_info_says(host: Host) -> None:
    with host.broker.client() as connection:
        connection.execute_command("ACL", "SETUSER", "default", "-config|get")
        found = look(host)
        assert found["broker settings"].state is OK
        assert "may not see" in found["broker settings"].what
        connection.config_set("maxmemory-policy", "allkeys-lru")
        connection.config_set("appendonly", "no")
    assert_only(look(host), "broker settings", FAILED, "appendonly no", "allkeys-lru", "redis.conf")


@pytest.mark.parametrize(
    ("told", "state", "words"),
    [
        ({"redis_version": "6.0.16"}, FAILED, "older than 6.2"),
        ({"redis_version": "6.2.14"}, WARNING, "no roles"),
        ({"redis_version": b"7.0.15"}, OK, "7.0.15"),
        ({"redis_version": "7.2.4", "valkey_version": "8.1.1"}, OK, "Valkey 8.1.1"),
    ],
)
def test_a_broker_that_is_too_old_is_found(
    told: dict[str, str | bytes], state: FindingState, words: str
) -> None:
    class Old:
        @staticmethod
        def info(_section: str) -> dict[str, str | bytes]:
            return told

    finding = _version_of(Old())
    assert finding.state is state
    assert words in finding.what


def test_a_broker_whose_disk_is_full_is_found(tmp_path: Path) -> None:
    with small_volume(tmp_path / "disk", megabytes=4) as disk:
        with running_broker(disk / "broker") as server:
            repo = make_repository(tmp_path / "repo", {"a": "b\n"})
            host = make_host(tmp_path, server, make_sender(tmp_path / "sender"), repo)
            fill(disk)
            with server.client() as connection, contextlib.suppress(redis.ResponseError):
                for _ in range(200):
                    connection.set("x", "x" * 10_000)
                    time.sleep(0.01)  # it writes once a turn of its loop
            found = look(host)
            assert found["broker"].state is FAILED
            assert "cannot write to its disk" in found["broker"].what
            (disk / "filler").unlink()


@pytest.mark.parametrize(("late_s", "state"), [(90.0, WARNING), (-500.0, FAILED)])
def test_a_clock_that_is_wrong_is_found(late_s: float, state: FindingState, host: Host) -> None:
    found = look(host, late_s=late_s)
    assert found["clock"].state is state
    assert "time synchronisation" in found["clock"].remedy


@pytest.mark.parametrize(
    ("url", "state"),
    [
        ("redis://127.0.0.1:6379/0", OK),
        ("redis://10.0.0.7:6379/0", FAILED),
        ("redis://:secret@10.0.0.7:6379/0", WARNING),
        ("rediss://:secret@10.0.0.7:6379/0", OK),
    ],
)
def test_what_stands_between_the_network_and_the_queue_is_judged(
    url: str, state: FindingState
) -> None:
    from worker.diagnosis.broker import _reach

    assert _reach(url).state is state
    assert "secret" not in _reach(url).what


# --- disks -------------------------------------------------------------------------------------
def write_roots(host: Host, *roots: Path) -> None:
    listed = ", ".join(f'"{root}"' for root in roots)
    (host.fleet_home / "policy.toml").write_text(f'[senders."*"]\nrepo_roots = [{listed}]\n')


def test_a_repository_root_that_is_missing_or_full_or_read_only_is_found(
    host: Host, tmp_path: Path
) -> None:
    write_roots(host, tmp_path / "gone")
    assert_only(look(host), f"repository root {tmp_path / 'gone'}", FAILED, "repo_roots")
    unseen = Path("/" + "x" * 300)  # as little to be looked at as one in a closed folder
    write_roots(host, unseen)
    assert_only(look(host), f"repository root {unseen}", FAILED, "repo_roots")
    with small_volume(tmp_path / "disk", megabytes=1) as disk:
        name = f"repository root {disk}"
        write_roots(host, disk)
        assert_only(look(host), name, FAILED, f"volume {disk}", "floor")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert_only(look(host), name, FAILED, "write access")


def test_a_state_folder_without_room_for_its_reserve_is_found(
    broker: Broker, tmp_path: Path
) -> None:
    with small_volume(tmp_path / "HOSTA" / "fleet" / "state", megabytes=4) as state:
        repo = make_repository(tmp_path / "repo", {"a": "b\n"})
        host = make_host(tmp_path, broker, make_sender(tmp_path / "sender"), repo)
        write_config(host, f'[host]\nname = "{host.name}"\nlanes = ["{LANE}"]\n')
        host.fleet_home.chmod(0o700)
        found = look(host)
        assert states(found, FAILED) == {"state folder", "reserve"}
        assert "below the floor" in found["state folder"].what
        assert str(state) in found["reserve"].remedy


def test_the_volume_of_a_folder_is_where_it_is_mounted(tmp_path: Path) -> None:
    with small_volume(tmp_path / "disk", megabytes=1) as disk:
        (disk / "a" / "b").mkdir(parents=True)
        assert volume_of(disk / "a" / "b") == disk
    assert volume_of(Path("/")) == Path("/")


# --- the journal -------------------------------------------------------------------------------
def test_a_damaged_journal_is_found(host: Host) -> None:
    for _ in range(50):
        claim(host, repo="x" * 2_000)
    with contextlib.closing(sqlite3.connect(host.journal_file)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with host.journal_file.open("r+b") as file:
        file.seek(4096 * 8)
        file.write(os.urandom(4096 * 8))
    assert_only(look(host), "journal", FAILED, "move it aside")
    host.journal_file.write_bytes(b"this is no database, " * 300)
    assert_only(look(host), "journal", FAILED, "move it aside")


def test_a_journal_of_a_newer_version_is_found(host: Host) -> None:
    claim(host)
    with contextlib.closing(sqlite3.connect(host.journal_file)) as database:
        database.execute("PRAGMA user_version = 99")
    assert_only(look(host), "journal", FAILED, "newer version")


def test_a_lost_journal_is_found(host: Host) -> None:
    host.start()
    host.run_honest_job()
    assert host.stop() == 0
    for file in host.journal_file.parent.glob("journal.sqlite3*"):
        file.unlink()
    found = look(host)
    assert found["journal"].state is WARNING
    assert "is gone" in found["journal"].what
    host.start()
    host.stop()
    assert "are refused" in look(host)["journal"].what


def test_jobs_whose_process_is_gone_and_their_prompts_are_found(host: Host) -> None:
    host.start()
    host.push(host.job(payload=host.payload(task="wait until released")))
    wait_until(lambda: host.starts == 1, "the agent has started")
    runs = host.fleet_home / "state" / "runs"
    host.kill()
    wait_until(lambda: look(host)["processes"].state is OK, "the run goes with its listener", 60)
    (run,) = runs.iterdir()
    (run / "prompt").write_text("a prompt that a kill left")
    found = look(host)
    assert {"orphans", "runtime folder"} <= states(found, FAILED)
    assert run.name in found["orphans"].what
    assert f"rm {run / 'prompt'}" == found["runtime folder"].remedy
    assert found["listener"].state is WARNING
    (run / "prompt").unlink()
    host.start()
    host.result(run.name)
    host.published(run.name)
    assert host.stop() == 0
    assert look(host)["orphans"].state is OK


def test_commits_that_did_not_come_home_are_found(host: Host) -> None:
    job_id = claim(host)
    (host.fleet_home / "state" / "runs" / job_id / "box" / "git").mkdir(parents=True)
    assert look(host)["commits"].state is OK, "the job has no end yet"
    with journal_of(host) as journal:
        journal.finish(job_id, b"{}", sealed="{}")
        journal.mark_published(job_id)
    assert_only(look(host), "commits", WARNING, job_id, "remove the folder")


def test_results_that_were_not_delivered_are_found(host: Host) -> None:
    jobs = [claim(host) for _ in range(7)]
    with journal_of(host) as journal:
        for job_id in jobs:
            journal.finish(job_id, b"{}", sealed="{}")
    assert_only(look(host), "outbox", FAILED, jobs[0], "and 2 more", "broker")


def test_old_locks_of_git_are_found(host: Host) -> None:
    job_id = claim(host, repo=str(host.repo))
    with journal_of(host) as journal:
        journal.record(job_id, JobState.REFUSED)
    lock = host.repo / ".git" / "index.lock"
    lock.touch()
    assert look(host)["git locks"].state is OK, "a git command may be at work"
    os.utime(lock, (1, 1))
    assert_only(look(host), "git locks", WARNING, str(lock))


def test_processes_that_outlived_their_job_are_found(host: Host) -> None:
    process = subprocess.Popen(["sleep", "300"])
    try:
        job_id = claim(host)
        started = psutil.Process(process.pid).create_time()
        with journal_of(host) as journal:
            running = RecordedProcess(job_id, process.pid, started, "agent", "marker")
            journal.processes.add([running])
            assert look(host)["processes"].state is OK, "its owner, this process, lives"
            journal.finish(job_id, b"{}", sealed="{}")
            journal.mark_published(job_id)
        assert_only(look(host), "processes", FAILED, str(process.pid), job_id, "start the listener")
    finally:
        process.kill()
        process.wait()
    assert look(host)["processes"].state is OK


def test_a_listener_that_cannot_be_seen_from_here_is_not_called_running(host: Host) -> None:
    with journal_of(host) as journal, journal._file.writing() as database:
        database.execute(
            "INSERT INTO leases (kind, key, owner, until) VALUES (?, ?, ?, ?)",
            (LEASE_KIND, host.name, "another/machine/boot/space:7:1.00", time.time() + 30),
        )
    assert_only(look(host), "listener", WARNING, "process 7 on another", "cannot be seen")


def test_a_repository_that_was_set_aside_is_found(host: Host) -> None:
    with journal_of(host) as journal:
        git_dir = str(host.repo / ".git")
        journal.repositories.quarantine(
            git_dir, repo=str(host.repo), job_id="j", why=("core.hooksPath",)
        )
        assert_only(look(host), "repositories", WARNING, str(host.repo), "repo trust")
        journal.repositories.trust(git_dir)
    assert look(host)["repositories"].state is OK
