"""`service install|status|uninstall`: the real verb, with a scripted systemctl first on PATH."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from contracts.errors import InvalidRequest, Refused
from tests.support.fleet import Machine, place_program
from worker.service.description import describe_service, find_program
from worker.settings import load_host_settings

# Knows three things: enable, disable, is-active; writes down what it was asked.
SYSTEMCTL = """
import os, sys
home = os.environ["HOME"]
with open(home + "/asked", "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
words, flag = sys.argv[1:], home + "/active"
if os.path.exists(home + "/no-systemd"):
    sys.exit("Failed to connect to bus: No medium found")
if "enable" in words:
    open(flag, "w").close()
if "disable" in words and os.path.exists(flag):
    os.unlink(flag)
if "is-active" in words:
    print("active" if os.path.exists(flag) else "inactive")
    sys.exit(0 if os.path.exists(flag) else 3)
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    home = tmp_path / "home"
    place_program(home / "bin", "systemctl", SYSTEMCTL)
    machine = Machine(home, home / "bin", "redis://127.0.0.1:1/0", "HOSTA")
    machine.extra = {"FLEET_DISPATCH_REDIS_URL": ""}
    write_config(machine, '[host]\nlanes = ["L"]\n')
    return machine


def write_config(machine: Machine, text: str) -> None:
    folder = machine.home / "fleet"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "config.toml").write_text(text)
    (folder / "config.toml").chmod(0o600)


def unit(machine: Machine) -> Path:
    return machine.home / ".config" / "systemd" / "user" / "fleet-dispatch.service"


def asked(machine: Machine) -> list[str]:
    path = machine.home / "asked"
    return path.read_text().splitlines() if path.exists() else []


def test_install_status_and_uninstall_do_what_they_say(machine: Machine) -> None:
    assert machine.run("service", "status").returncode == 4
    machine.succeed("service", "install")
    text = unit(machine).read_text()
    assert f"FLEET_DISPATCH_HOME={machine.home / 'fleet'}" in text
    assert f"PATH={machine.programs}:" in text, "agents are found as they are now"
    assert stat.S_IMODE(unit(machine).stat().st_mode) == 0o644
    assert asked(machine)[-2:] == [
        "--user daemon-reload",
        "--user enable --now fleet-dispatch.service",
    ]
    status = machine.read_json("service", "status")
    assert (status["unit"], status["state"], status["ok"]) == ("current", "running", True)
    keys = machine.home / "fleet" / "keys"
    keys.mkdir(mode=0o700)
    machine.succeed("service", "uninstall")
    assert not unit(machine).exists()
    assert keys.is_dir() and (machine.home / "fleet" / "config.toml").exists()
    assert "--user disable --now fleet-dispatch.service" in asked(machine)
    assert machine.succeed("service", "uninstall") == "nothing to do\n"


def test_install_twice_is_once_and_a_changed_setting_makes_it_outdated(machine: Machine) -> None:
    machine.succeed("service", "install")
    before = unit(machine).stat().st_mtime_ns, len(asked(machine))
    assert machine.read_json("service", "install")["steps"] == []
    assert unit(machine).stat().st_mtime_ns == before[0]
    write_config(machine, '[host]\nlanes = ["L"]\ndrain_timeout_s = 7200\n')
    status = machine.run("service", "status", "--json")
    assert status.returncode == 4
    assert json.loads(status.stdout)["unit"] == "outdated"
    machine.succeed("service", "install")
    assert "TimeoutStopSec=7410" in unit(machine).read_text()
    assert [path.name for path in unit(machine).parent.iterdir()] == [unit(machine).name]


@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_a_dry_run_shows_everything_and_does_nothing(verb: str, machine: Machine) -> None:
    if verb == "uninstall":
        machine.succeed("service", "install")
    before = unit(machine).exists(), [line for line in asked(machine) if "is-active" not in line]
    shown = machine.read_json("service", verb, "--dry-run")
    assert shown["dryRun"] is True
    assert [step["ok"] for step in shown["steps"]] == [None] * 3 if verb == "install" else True
    assert ("KillMode=mixed" in shown["text"]) == (verb == "install")
    words = machine.succeed("service", verb, "--dry-run")
    assert words.startswith("would: ")
    after = unit(machine).exists(), [line for line in asked(machine) if "is-active" not in line]
    assert after == before


@pytest.mark.parametrize("what", ["text", "link", "other home", "binary"])
def test_a_foreign_unit_is_never_changed_or_removed(what: str, machine: Machine) -> None:
    machine.succeed("service", "install")
    ours = unit(machine).read_text()
    unit(machine).unlink()
    if what == "link":
        unit(machine).symlink_to("/dev/null")  # what `systemctl mask` makes
    elif what == "binary":
        unit(machine).write_bytes(b"\xff\xfe")
    else:
        home = str(machine.home / "fleet")
        foreign = "[Service]\nExecStart=/bin/true\n"
        unit(machine).write_text(
            foreign if what == "text" else ours.replace(home, "/srv/other/fleet")
        )
    before = unit(machine).read_bytes()
    for verb in ("install", "uninstall"):
        done = machine.run("service", verb)
        assert done.returncode == 2
        assert "was not written by this installation" in done.stderr
    assert unit(machine).read_bytes() == before
    assert json.loads(machine.run("service", "status", "--json").stdout)["unit"] == "foreign"


def test_without_a_running_systemd_every_verb_says_so(machine: Machine) -> None:
    (machine.home / "no-systemd").touch()
    done = machine.run("service", "status")
    assert done.returncode == 4
    assert "systemd --user does not run here" in done.stdout
    assert "Failed to connect to bus" in done.stdout
    done = machine.run("service", "install")
    assert done.returncode == 4
    assert "FAILED: run systemctl --user daemon-reload" in done.stdout
    assert "not tried: run systemctl --user enable" in done.stdout
    assert unit(machine).exists(), "the unit is in place for when it does"
    done = machine.run("service", "uninstall")
    assert done.returncode == 4
    assert not unit(machine).exists()


def test_a_broker_url_of_the_environment_is_pointed_at_and_not_written(machine: Machine) -> None:
    machine.extra = {"FLEET_DISPATCH_REDIS_URL": "redis://:pa55word@127.0.0.1:1/0"}
    done = machine.run("service", "install")
    assert "set redis_url" in done.stderr
    assert "pa55word" not in unit(machine).read_text() + done.stdout + done.stderr


def test_a_service_without_lanes_is_refused(machine: Machine) -> None:
    write_config(machine, "")
    done = machine.run("service", "install")
    assert done.returncode == 2
    assert "host.lanes" in done.stderr
    assert not unit(machine).exists()


def test_a_service_whose_lanes_were_taken_away_can_be_looked_at_and_removed(
    machine: Machine,
) -> None:
    machine.succeed("service", "install")
    write_config(machine, "")
    status = machine.run("service", "status", "--json")
    assert json.loads(status.stdout)["unit"] == "current"
    assert "no lane is served here" in " ".join(json.loads(status.stdout)["notes"])
    machine.succeed("service", "uninstall")
    assert not unit(machine).exists()
    assert machine.succeed("service", "uninstall") == "nothing to do\n"


def test_a_folder_that_takes_no_unit_is_an_error_with_a_remedy(machine: Machine) -> None:
    (machine.home / ".config").write_text("a file where a folder belongs")
    done = machine.run("service", "install")
    assert done.returncode == 2
    assert "cannot write" in done.stderr


def test_a_service_of_the_machine_runs_as_who_owns_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"FLEET_DISPATCH_HOME": str(tmp_path), "PATH": "relative:/bin:/bin:/usr/bin"}
    flags = {"host.lanes": ("L",)}
    settings = load_host_settings(environ=environ, flags=flags)
    service = describe_service(settings, environ, of_machine=True)
    assert service.user == tmp_path.owner()
    assert service.search_path == "/bin:/usr/bin", "a service has no current folder"
    assert service.program.is_absolute()
    odd = {**environ, "PATH": "/bin\nExecStart=/evil"}
    with pytest.raises(InvalidRequest, match="PATH"):
        describe_service(settings, odd, of_machine=False)
    monkeypatch.setattr("sysconfig.get_path", lambda _name: str(tmp_path / "it's"))
    place_program(tmp_path / "it's", "fleet-dispatch", "")
    with pytest.raises(InvalidRequest, match="program"):  # systemd would refuse the whole unit
        describe_service(settings, environ, of_machine=False)
    nowhere = load_host_settings(
        environ={"FLEET_DISPATCH_HOME": str(tmp_path / "nowhere")}, flags=flags
    )
    with pytest.raises(Refused, match="nobody owns"):
        describe_service(nowhere, environ, of_machine=True)


def test_the_program_is_the_console_script_wherever_it_was_called_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_program().name == "fleet-dispatch"
    monkeypatch.setattr("sysconfig.get_path", lambda _name: str(tmp_path))
    called = place_program(tmp_path / "bin", "fleet-dispatch", "")
    assert find_program(str(called)) == called
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_program("pytest") == called
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refused, match="not installed"):
        find_program("pytest")
