"""The guards of tests/conftest.py do guard."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.leaks import ProcessMark, describe_and_end, worktrees_of
from tests.support.tools import require_tool

_SLEEPER = "import time; time.sleep(60)"


def test_the_network_beyond_loopback_is_closed() -> None:
    with pytest.raises(PermissionError, match="beyond loopback"):
        socket.create_connection(("192.0.2.1", 9), timeout=1)
    with pytest.raises(PermissionError, match="beyond loopback"):
        socket.getaddrinfo("example.org", 80)


def test_loopback_itself_stays_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname(), timeout=5) as client:
            assert client.getpeername() == server.getsockname()


def test_ctrl_c_reaches_the_tests_and_what_they_start() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_home_is_an_empty_folder_of_this_test(own_home: Path) -> None:
    assert Path.home() == own_home
    assert not list(own_home.iterdir())


def test_nobody_elses_settings_reach_a_test() -> None:
    assert not [name for name in os.environ if name.startswith(("GIT_", "FLEET_DISPATCH_", "XDG_"))]


def test_a_child_that_is_left_running_is_found_and_ended(tmp_path: Path) -> None:
    before = ProcessMark.take()
    child = subprocess.Popen([sys.executable, "-c", _SLEEPER])
    left = before.left_behind(tmp_path, patience_s=0)
    assert str(child.pid) in describe_and_end(left)
    child.wait(5)
    assert not psutil.pid_exists(child.pid)


def test_a_daemon_that_left_the_family_is_found_by_the_folder_it_works_in(tmp_path: Path) -> None:
    before = ProcessMark.take()
    start = (
        f"import subprocess, sys; "
        f"print(subprocess.Popen([sys.executable, '-c', {_SLEEPER!r}], start_new_session=True,"
        f" stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)"
    )
    parent = subprocess.run(
        [sys.executable, "-c", start], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    left = before.left_behind(tmp_path, patience_s=0)
    assert parent.stdout.strip() in describe_and_end(left)


def test_a_child_that_ends_by_itself_is_no_leak(tmp_path: Path) -> None:
    before = ProcessMark.take()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.2)"])
    assert not before.left_behind(tmp_path, patience_s=10)
    assert child.wait(5) == 0


def test_a_worktree_of_the_project_is_seen(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git" / "worktrees" / "left").mkdir(parents=True)
    (tmp_path / "project-agents").mkdir()
    assert worktrees_of(project) == {"worktree left", f"folder {project}-agents"}


def test_a_missing_tool_skips_at_a_desk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "")
    with pytest.raises(pytest.skip.Exception):
        require_tool("no-such-tool-anywhere")


def test_a_missing_tool_fails_where_the_branch_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception):
        require_tool("no-such-tool-anywhere")
