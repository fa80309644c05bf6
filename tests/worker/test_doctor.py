"""The doctor: the whole, and the checks of files, keys, programs, service and sandbox, with the
thing that each looks at really broken."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from contracts.clock import SystemClock
from contracts.errors import InvalidRequest, Problem, Unavailable
from dispatch.key_records import dump_record
from dispatch.key_store import accept_grant
from tests.support.fleet import PROGRAM, place_program
from tests.support.hosts import LANE, Host
from tests.support.patient import (
    FAILED,
    OK,
    WARNING,
    assert_only,
    claim,
    journal_of,
    look,
    machine_of,
    states,
    write_config,
)
from worker.diagnosis.examination import CHECKS, examine
from worker.diagnosis.finding import Finding, FindingState, Machine, holds, of_error
from worker.diagnosis.sandbox import check_sandbox


@pytest.fixture
def host(whole_host: Host) -> Host:
    return whole_host


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

    def closed(_machine: Machine) -> Iterator[Finding]:
        yield holds("other half", "seen")
        raise PermissionError(13, "Permission denied")

    checks = [("x", broken), ("z", closed), ("y", lambda _machine: [holds("y", "well")])]
    found = examine(machine_of(host), checks)
    assert [(item.name, item.state) for item in found] == [
        ("first half", OK),
        ("x", FAILED),
        ("other half", OK),
        ("z", FAILED),
        ("y", OK),
    ]
    assert "Permission denied" in found[3].what
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
    place_program(host.home / "bin", "systemctl", "raise SystemExit('Failed to connect to bus')")
    assert_only(look(host), "service", WARNING, "nothing starts it", "start systemd --user")
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

    class Weak:
        mode = SandboxMode.LANDLOCK
        enforces = frozenset({Capability.KEYS})

    (weak,) = check_sandbox(machine_of(host), Weak())  # type: ignore[arg-type]
    assert weak.state is WARNING
    assert "sockets" in weak.what and "enforces keys" in weak.what
    host.extra["FLEET_DISPATCH_SANDBOX"] = ""
    config = '[host]\nname = "{}"\nlanes = ["{}"]\n[sandbox]\nmode = "{}"\n'
    write_config(host, config.format(host.name, LANE, "none"))
    assert "enforces nothing" in look(host)["sandbox"].what
    place_program(host.home / "bin", "bwrap", "import sys; sys.exit('bwrap: not permitted')")
    write_config(host, config.format(host.name, LANE, "auto"))
    assert "bwrap: the canary did not report: bwrap: not permitted" in look(host)["sandbox"].what
    write_config(host, config.format(host.name, LANE, "bwrap"))
    refused = look(host)["sandbox"]
    assert (refused.state, "not permitted" in refused.what) == (FAILED, True)
    (whole,) = check_sandbox(machine_of(host), Whole())  # type: ignore[arg-type]
    assert whole.state is OK
