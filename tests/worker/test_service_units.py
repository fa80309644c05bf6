"""The texts of the service units, and systemd's own opinion of its one."""

from __future__ import annotations

import plistlib
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from runagent.process import EndState, ProcessOutcome
from tests.golden.write_units import DRAIN_TIMEOUT_S, sample, units
from tests.support.source_tree import PROJECT
from tests.support.tools import require_tool
from worker.drain import longest_end_s
from worker.runs.runs import STOP_GRACE_S
from worker.service.choice import choose_supervisor
from worker.service.launchd import LABEL, Launchd
from worker.service.supervisor import NO_MANAGER, RUNNING, STOPPED, Supervisor
from worker.service.systemd import Systemd, user_folder
from worker.service.windows import TaskScheduler

SYSTEMD = Systemd(user_folder=Path("/nowhere"))
MACHINE = Systemd(user_folder=Path("/nowhere"), of_machine=True)
LAUNCHD = Launchd(user_folder=Path("/nowhere"), uid=501)
WINDOWS = TaskScheduler(folder=Path("/nowhere"))


def ended(stdout: bytes, code: int = 0, state: EndState = EndState.EXITED) -> ProcessOutcome:
    return ProcessOutcome(state=state, exit_code=code, why="", stdout=stdout)


def setting(text: str, name: str) -> str:
    (value,) = re.findall(rf"^{name}=(.*)$", text, re.MULTILINE)
    return str(value)


@pytest.mark.parametrize("name", units())
def test_an_installed_example_is_what_the_code_writes(name: str) -> None:
    assert (PROJECT / "ops" / name).read_text(encoding="utf-8") == units()[name]


@pytest.mark.parametrize("manager", [SYSTEMD, MACHINE], ids=["user", "system"])
def test_the_unit_signals_the_listener_alone_and_waits_for_its_longest_end(
    manager: Systemd,
) -> None:
    text = manager.text(sample())
    assert setting(text, "KillMode") == "mixed"
    assert setting(text, "Delegate") == "yes", "a run's cgroup can be made without root"
    assert setting(text, "KillSignal") == "SIGTERM"
    assert setting(text, "Restart") == "always"
    assert int(setting(text, "RestartSec")) > 0
    stop_s = int(setting(text, "TimeoutStopSec"))
    assert stop_s > longest_end_s(DRAIN_TIMEOUT_S) > DRAIN_TIMEOUT_S + STOP_GRACE_S
    assert setting(text, "ExecStart").startswith('"/')
    assert 'Environment="PYTHONSAFEPATH=1"' in text


def test_a_longer_drain_makes_a_longer_stop_in_every_unit() -> None:
    service = replace(sample(), stop_s=4_242)
    assert setting(SYSTEMD.text(service), "TimeoutStopSec") == "4242"
    assert plistlib.loads(LAUNCHD.text(service).encode())["ExitTimeOut"] == 4_242


@pytest.mark.parametrize("name", units())
def test_no_unit_holds_a_url_or_a_password(name: str) -> None:
    assert not re.search(r"redis://|password|secret|REDIS", units()[name], re.IGNORECASE)


@pytest.mark.parametrize("manager", [SYSTEMD, MACHINE], ids=["user", "system"])
def test_systemd_itself_finds_nothing_wrong_with_the_unit(manager: Systemd, tmp_path: Path) -> None:
    analyze = require_tool("systemd-analyze")
    folder = tmp_path / "a folder with spaces, 100% and $HOME"
    folder.mkdir()
    program = folder / "fleet-dispatch"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "fleet-dispatch.service"
    user = "root" if manager.of_machine else ""
    service = replace(sample(user=user), program=program, search_path='/usr/bin:/a "50%" $HOME\\x')
    unit.write_text(manager.text(service))
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    command = [analyze, "--man=no", *([] if manager.of_machine else ["--user"]), "verify"]
    done = subprocess.run(
        [*command, str(unit)],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(runtime)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout + done.stderr == "", "it warns of nothing"


def test_the_check_of_systemd_sees_what_is_wrong(tmp_path: Path) -> None:
    analyze = require_tool("systemd-analyze")
    unit = tmp_path / "fleet-dispatch.service"
    unit.write_text(SYSTEMD.text(sample()).replace("KillMode=mixed", "KillMode=mixt"))
    done = subprocess.run(
        [analyze, "--man=no", "verify", str(unit)], capture_output=True, text=True, timeout=60
    )
    assert "kill mode" in done.stderr.lower()


def test_the_launch_agent_is_kept_alive_and_has_no_shell() -> None:
    keys = plistlib.loads(LAUNCHD.text(sample()).encode())
    assert (keys["Label"], keys["RunAtLoad"], keys["KeepAlive"]) == (LABEL, True, True)
    assert keys["ProgramArguments"] == ["/home/me/.fleet/bin/fleet-dispatch", "listen"]
    assert keys["EnvironmentVariables"]["PYTHONSAFEPATH"] == "1"
    assert keys["ExitTimeOut"] > longest_end_s(DRAIN_TIMEOUT_S)
    assert "UserName" not in keys
    assert plistlib.loads(LAUNCHD.text(sample(user="me")).encode())["UserName"] == "me"


def test_the_task_is_xml_and_runs_for_as_long_as_it_wants() -> None:
    odd = replace(sample(windows=True), search_path=r"C:\it's <&> here")
    space = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"
    tree = ET.fromstring(WINDOWS.text(odd))
    assert tree.findtext(f"{space}Settings/{space}ExecutionTimeLimit") == "PT0S"
    assert tree.findtext(f".//{space}Command") == "pwsh"
    arguments = tree.findtext(f".//{space}Arguments") or ""
    assert r"$env:PATH='C:\it''s <&> here'" in arguments
    assert "$env:PYTHONSAFEPATH='1'" in arguments
    assert tree.find(f".//{space}LogonTrigger") is not None
    machine = TaskScheduler(folder=Path("/nowhere"), of_machine=True).text(odd)
    assert "BootTrigger" in machine


@pytest.mark.parametrize(
    ("manager", "outcome", "state"),
    [
        (SYSTEMD, ended(b"active\n"), RUNNING),
        (SYSTEMD, ended(b"activating\n", 3), RUNNING),
        (SYSTEMD, ended(b"inactive\n", 3), STOPPED),
        (SYSTEMD, ended(b"failed\n", 3), STOPPED),
        (SYSTEMD, ended(b"", 1), NO_MANAGER),
        (SYSTEMD, ended(b"", 0, EndState.NOT_STARTED), NO_MANAGER),
        (LAUNCHD, ended(b"gui/501/x = {\n  state = running\n}"), RUNNING),
        (LAUNCHD, ended(b"", 113), STOPPED),
        (LAUNCHD, ended(b"", 0, EndState.NOT_STARTED), NO_MANAGER),
        (WINDOWS, ended(b"Running\r\n"), RUNNING),
        (WINDOWS, ended(b"Ready\r\n"), STOPPED),
        (WINDOWS, ended(b"", 0, EndState.TIMED_OUT), NO_MANAGER),
    ],
)
def test_what_a_manager_says_is_read(
    manager: Supervisor, outcome: ProcessOutcome, state: str
) -> None:
    assert manager.read_state(outcome) == state


@pytest.mark.parametrize("manager", [SYSTEMD, MACHINE, LAUNCHD, WINDOWS], ids=lambda m: m.name)
def test_every_manager_knows_how_to_start_stop_and_ask(manager: Supervisor) -> None:
    for what in ("start", "stop", "state"):
        assert manager.commands(what)
    assert len(manager.commands("state")) == 1
    assert isinstance(manager.commands("forget"), tuple)
    assert manager.file.name


@pytest.mark.parametrize(
    ("platform", "of_machine", "file"),
    [
        ("linux", False, "/home/me/.config/systemd/user/fleet-dispatch.service"),
        ("linux", True, "/etc/systemd/system/fleet-dispatch.service"),
        ("darwin", False, "/home/me/Library/LaunchAgents/fleet-dispatch.listener.plist"),
        ("darwin", True, "/Library/LaunchDaemons/fleet-dispatch.listener.plist"),
        ("win32", False, "/home/me/settings/fleet-dispatch.task.xml"),
    ],
)
def test_each_system_has_its_manager(platform: str, of_machine: bool, file: str) -> None:
    manager = choose_supervisor(
        {"HOME": "/home/me"},
        config_dir=Path("/home/me/settings"),
        of_machine=of_machine,
        platform=platform,
    )
    assert str(manager.file) == file
    notes = " ".join(manager.notes(sample(), {"USER": "nobody-of-that-name"}))
    assert ("never run" in notes) == (platform != "linux")
    assert ("enable-linger" in notes) == (platform == "linux" and not of_machine)


def test_a_users_units_follow_the_standard_variable() -> None:
    assert user_folder({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}) == Path("/x/systemd/user")
    assert user_folder({"XDG_CONFIG_HOME": "x", "HOME": "/h"}) == Path("/h/.config/systemd/user")
