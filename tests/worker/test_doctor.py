"""The doctor: every check, with the thing it looks at really broken."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from contracts.clock import SystemClock
from contracts.errors import InvalidRequest, Problem, Unavailable
from contracts.ids import new_job_id
from dispatch.key_records import dump_record
from dispatch.key_store import accept_grant
from dispatch.settings import load_settings
from runagent.process import system_runner
from tests.support.broker import Broker, running_broker
from tests.support.fleet import PROGRAM, make_repository, place_program, wait_until
from tests.support.hosts import LANE, Host, make_host, make_sender
from tests.support.volumes import fill, small_volume
from worker.diagnosis.disks import volume_of
from worker.diagnosis.examination import CHECKS, examine
from worker.diagnosis.finding import Finding, FindingState, Machine, holds, of_error
from worker.diagnosis.sandbox import check_sandbox
from worker.journal import Journal
from worker.journal_records import NewJob
from worker.journal_schema import JobState
from worker.settings import host_settings

OK, WARNING, FAILED = FindingState.OK, FindingState.WARNING, FindingState.FAILED


@pytest.fixture
def host(broker: Broker, tmp_path: Path) -> Host:
    """A host that lacks nothing; no listener runs."""
    repo = make_repository(tmp_path / "repo", {"readme.txt": "hello\n"})
    host = make_host(tmp_path, broker, make_sender(tmp_path / "sender"), repo)
    write_config(host, f'[host]\nname = "{host.name}"\nlanes = ["{LANE}"]\n')
    return host


def write_config(host: Host, text: str) -> None:
    config = host.fleet_home / "config.toml"
    config.write_text(text)
    config.chmod(0o600)


class LateClock(SystemClock):
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def wall(self) -> float:
        return super().wall() + self._seconds


def machine_of(host: Host, *, late_s: float = 0.0) -> Machine:
    settings = load_settings(environ=host.environment)
    return Machine(
        settings=settings,
        host=host_settings(settings),
        environment=host.environment,
        runner=system_runner(),
        clock=LateClock(late_s),
    )


def look(host: Host, **options: float) -> dict[str, Finding]:
    found = examine(machine_of(host, **options))
    for finding in found:
        assert finding.what
        assert bool(finding.remedy) == (finding.state is not OK), finding
    return {finding.name: finding for finding in found}


def states(found: dict[str, Finding], state: FindingState) -> set[str]:
    return {name for name, finding in found.items() if finding.state is state}


def assert_only(found: dict[str, Finding], name: str, state: FindingState, *words: str) -> None:
    """Only `name` is not well (the sandbox of this machine aside), and it says `words`."""
    assert (states(found, WARNING) | states(found, FAILED)) - {"sandbox"} == {name}, found
    assert found[name].state is state
    for word in words:
        assert word in f"{found[name].what} ({found[name].remedy})"


def journal_of(host: Host) -> contextlib.closing[Journal]:
    return contextlib.closing(Journal(host.journal_file, SystemClock()))


def claim(host: Host, **facts: str) -> str:
    job_id = new_job_id()
    with journal_of(host) as journal:
        journal.claim(NewJob(jti=job_id, iss="alice", iat=1, exp=2**40, facts=facts))
    return job_id


# --- the whole ---------------------------------------------------------------------------------
def test_a_host_that_lacks_nothing_is_well(host: Host) -> None:
    found = look(host)
    assert not states(found, FAILED), found
    assert states(found, WARNING) <= {"sandbox"}, found
    assert found["agents"].what == "codex 1.2.3"
    assert {
        "reserve",
        "git",
        "clock",
        "grants",
        "policy",
        f"repository root {host.home.parent}",
    } <= set(found)


def test_a_host_with_a_listener_and_a_finished_job_is_well(host: Host) -> None:
    host.start()
    try:
        result = host.run_honest_job()
        host.published(result.jobId)
        found = look(host)
        assert not states(found, FAILED), found
        assert "runs as process" in found["listener"].what
        assert "are kept" in found["reserve"].what
    finally:
        host.stop()
    assert look(host)["listener"].what == "none runs now"


def test_a_machine_that_only_sends_needs_no_key_of_a_host(host: Host) -> None:
    write_config(host, "")
    for path in (host.fleet_home / "keys").iterdir():
        path.unlink()
    (host.home / "bin" / "codex").unlink()
    found = look(host)
    assert states(found, FAILED) | states(found, WARNING) == set()
    assert not {"sandbox", "reserve", "service", "policy"} & set(found)


def test_a_check_that_cannot_be_made_is_a_finding_and_stops_no_other(host: Host) -> None:
    def broken(_machine: Machine) -> Iterator[Finding]:
        yield holds("first half", "seen")
        raise Unavailable("it is away", remedy="bring it back")

    found = examine(machine_of(host), [("x", broken), ("y", lambda _machine: [holds("y", "well")])])
    assert [(item.name, item.state) for item in found] == [
        ("first half", OK),
        ("x", FAILED),
        ("y", OK),
    ]
    assert found[1].remedy == "bring it back"
    assert of_error("x", Unavailable("alone")).remedy
    many = InvalidRequest([Problem("a", "is bad", "mend a"), Problem("b", "is odd", "mend b")])
    assert of_error("x", many).what == "a: is bad; b: is odd"
    assert of_error("x", many).remedy == "mend a; mend b"
    assert len({name for name, _ in CHECKS}) == len(CHECKS)


def run_doctor(host: Host, *words: str) -> subprocess.CompletedProcess[str]:
    command = [PROGRAM, "doctor", *words]
    return subprocess.run(
        command, env=host.environment, cwd=host.home, capture_output=True, text=True, timeout=120
    )


def test_the_verb_exits_0_with_warnings_and_4_with_a_failure(host: Host) -> None:
    done = run_doctor(host, "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["ok"]) == (0, True), done.stdout
    assert set(document["checks"][0]) == {"name", "state", "what", "remedy"}
    (host.fleet_home / "policy.toml").unlink()
    done = run_doctor(host)
    assert done.returncode == 4
    assert "WRONG" in done.stdout
    assert "fleet-dispatch init" in done.stdout


# --- files and keys ----------------------------------------------------------------------------
def test_open_permissions_are_found(host: Host) -> None:
    claim(host)
    host.journal_file.chmod(0o644)
    with journal_of(host):
        pass  # opening it mends it
    host.journal_file.chmod(0o640)
    found = look_without_journal(host)
    assert found["permissions"].state is FAILED
    assert f"chmod 600 {host.journal_file}" in found["permissions"].remedy
    host.journal_file.chmod(0o600)
    (host.fleet_home / "keys").chmod(0o755)
    assert "chmod 700" in look(host)["permissions"].what


def look_without_journal(host: Host) -> dict[str, Finding]:
    checks = [(name, check) for name, check in CHECKS if name != "journal"]
    return {finding.name: finding for finding in examine(machine_of(host), checks)}


def test_a_changed_file_is_found(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    from dispatch import installation

    bad = installation.Finding(name="installed files", ok=False, detail="changed: worker/entry.py")
    monkeypatch.setattr(installation, "check_files", lambda: bad)
    assert_only(look(host), "installed files", FAILED, "worker/entry.py", "install the package")


def test_a_lane_without_a_grant_is_found(host: Host) -> None:
    write_config(host, f'[host]\nname = "{host.name}"\nlanes = ["{LANE}", "OTHER"]\n')
    assert_only(look(host), "grants", FAILED, "lane:OTHER", "keys grant")
    for path in (host.fleet_home / "keys").iterdir():
        path.unlink()
    assert_only(look(host), "grants", FAILED, "keys accept")


def test_a_grant_that_ends_soon_or_has_ended_is_found(host: Host) -> None:
    keys = host.fleet_home / "keys"
    for path in keys.iterdir():
        path.unlink()
    grant = host.sender.keyring.create_grant(host.name, [LANE], days=7)
    accept_grant(keys, dump_record(grant), host.name, file="grant", clock=SystemClock())
    assert_only(look(host), "grants", WARNING, "6 days", "keys grant")
    found = look(host, late_s=8 * 86_400)
    assert found["grants"].state is FAILED
    assert "no usable grant" in found["grants"].what


def test_a_policy_that_lets_nobody_use_anything_is_found(host: Host) -> None:
    policy = host.fleet_home / "policy.toml"
    policy.write_text('[senders."*"]\nrepo_roots = []\n')
    assert_only(look(host), "policy", FAILED, "repo_roots")
    policy.unlink()
    assert_only(look(host), "policy", FAILED, "fleet-dispatch init")


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


# --- programs ----------------------------------------------------------------------------------
def test_an_agent_that_is_missing_or_says_nothing_is_found(host: Host) -> None:
    place_program(host.home / "bin", "codex", "raise SystemExit(1)")
    assert_only(look(host), "agents", WARNING, "no version from codex")
    (host.home / "bin" / "codex").unlink()
    host.extra = {"PATH": f"{host.home / 'bin'}:/usr/bin:/bin"}
    assert_only(look(host), "agents", FAILED, "PATH")


@pytest.mark.parametrize(
    ("program", "state", "word"),
    [
        ("print('git version 2.25.1')", FAILED, "2.32"),
        ("print('git version 2.34.1')", WARNING, "newer"),
        ("print('no version at all')", FAILED, "older"),
        ("print('git version 3.1')", OK, ""),
        ("raise SystemExit(3)", FAILED, "install git"),
    ],
)
def test_a_git_that_is_old_or_broken_is_found(
    program: str, state: FindingState, word: str, host: Host
) -> None:
    place_program(host.home / "bin", "git", program)
    found = look(host)["git"]
    assert found.state is state
    assert word in f"{found.what} {found.remedy}"


# --- disks -------------------------------------------------------------------------------------
def write_roots(host: Host, *roots: Path) -> None:
    listed = ", ".join(f'"{root}"' for root in roots)
    (host.fleet_home / "policy.toml").write_text(f'[senders."*"]\nrepo_roots = [{listed}]\n')


def test_a_repository_root_that_is_missing_or_full_or_read_only_is_found(
    host: Host, tmp_path: Path
) -> None:
    write_roots(host, tmp_path / "gone")
    assert_only(look(host), f"repository root {tmp_path / 'gone'}", FAILED, "repo_roots")
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


# --- the service and the sandbox ---------------------------------------------------------------
def test_a_unit_that_is_outdated_or_foreign_or_stopped_is_found(host: Host) -> None:
    place_program(host.home / "bin", "systemctl", "print('active')")
    done = subprocess.run(
        [PROGRAM, "service", "install"], env=host.environment, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "running" in look(host)["service"].what
    place_program(host.home / "bin", "systemctl", "print('inactive')")
    assert_only(look(host), "service", WARNING, "stopped", "service install")
    lanes = f'[host]\nname = "{host.name}"\nlanes = ["{LANE}"]\n'
    write_config(host, f"{lanes}drain_timeout_s = 5000\n")
    assert_only(look(host), "service", FAILED, "service install")
    unit = host.home / ".config" / "systemd" / "user" / "fleet-dispatch.service"
    unit.write_text("[Service]\n")
    assert_only(look(host), "service", WARNING, "not written by this installation")


def test_the_sandbox_that_runs_get_is_told(host: Host) -> None:
    from contracts.sandbox import Capability, SandboxMode

    class Whole:
        mode = SandboxMode.NONE
        enforces = frozenset(Capability)

    (weak,) = check_sandbox(machine_of(host))
    assert weak.state is WARNING
    (whole,) = check_sandbox(machine_of(host), Whole())  # type: ignore[arg-type]
    assert whole.state is OK
