"""The warden's parts: what it may import, how it counts, what it does without the kernel's help."""

from __future__ import annotations

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runagent import _tree, warden
from runagent._tree import Remembered, descendants, snapshot
from runagent.environment import interpreter_environment
from runagent.process import ProcessSpec, run, system_runner
from tests.support.processes import end_all, is_alive, runaway_argv, wait_until, with_token

pytestmark = pytest.mark.linux
ROOT = Path(__file__).resolve().parents[2]


def started(folder: Path, token: str, *words: str) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(runaway_argv(folder, token, *words), stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"up\n"
    return child


def test_it_needs_nothing_but_a_few_modules_of_the_standard_library() -> None:
    script = (
        f"import os, sys; sys.path.append({str(ROOT)!r}); before = set(sys.modules)\n"
        "import runagent.warden\nprint(*sorted(set(sys.modules) - before))"
    )
    argv = (sys.executable, "-I", "-S", "-E", "-c", script)
    loaded = set(subprocess.run(argv, stdout=subprocess.PIPE).stdout.decode().split())

    assert "runagent.warden" in loaded
    assert loaded <= {
        "__future__",
        "runagent",
        "runagent._cgroup",
        "runagent._leader",
        "runagent._tree",
        "runagent.warden",
        "select",
        "signal",
        "enum",
    }


def test_a_start_costs_tens_of_milliseconds(tmp_path: Path) -> None:
    spec = ProcessSpec(argv=("true",), cwd="/", env={"PATH": os.defpath}, timeout_s=20)
    seconds = []
    for _ in range(9):
        began = time.monotonic()
        run(system_runner(), spec)
        seconds.append(time.monotonic() - began)

    assert statistics.median(seconds) < 0.2  # measured: 0.016-0.025 on a quiet machine


@pytest.mark.parametrize("children_files", [True, False])
def test_descendants_are_found_with_and_without_the_children_files(
    tmp_path: Path, token: str, children_files: bool
) -> None:
    child = started(tmp_path, token, "setsid", "deaf", "stay")
    try:
        assert wait_until(lambda: len(with_token(token)) == 3)
        found = set(descendants(os.getpid(), children_files=children_files))
        assert set(with_token(token)) <= found
        os.kill(child.pid, signal.SIGKILL)
        assert wait_until(lambda: not is_alive(child.pid))
        assert child.pid not in descendants(os.getpid(), children_files=children_files)
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def test_without_a_subreaper_what_a_snapshot_saw_is_remembered_after_the_leader(
    tmp_path: Path, token: str
) -> None:
    child = started(tmp_path, token, "setsid", "deaf", "stay")
    try:
        assert wait_until(lambda: len(with_token(token)) == 3)
        tree = Remembered(child.pid)
        assert set(tree.living()) == set(with_token(token))
        child.kill()
        child.wait()
        assert set(tree.living()) == set(with_token(token))
        assert len(with_token(token)) == 2
        assert not tree.is_gone(childless=True)
        end_all(token)
        assert wait_until(lambda: tree.is_gone(childless=True))
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def test_a_pid_that_began_at_another_time_is_another_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables = iter([{7: (1, 7, "S", "Mon")}, {7: (1, 9, "S", "Tue")}])
    monkeypatch.setattr(_tree, "snapshot", lambda: next(tables))
    tree = Remembered(7)

    assert tree.living() == [7]
    assert tree.living() == []


def test_a_snapshot_shows_us_and_our_parent() -> None:
    assert snapshot()[os.getpid()][0] == os.getppid()


def serve(order: bytes, *, stop: bytes = b"", hang_up: bool = False) -> list[dict[str, object]]:
    """Run a warden without its runner; return its reports."""
    ours, theirs = socket.socketpair()
    argv = ("-I", "-S", "-E", "-c", warden.COMMAND, str(ROOT), str(theirs.fileno()))
    child = subprocess.Popen(
        (sys.executable, *argv, str(os.getpid())),
        stdin=subprocess.DEVNULL,
        pass_fds=(theirs.fileno(),),
        env=interpreter_environment(),
    )
    theirs.close()
    with ours, ours.makefile("rb") as reports:
        ours.sendall(order)
        if hang_up:
            ours.shutdown(socket.SHUT_WR)
        lines = []
        for line in reports:
            lines.append(json.loads(line))
            if stop and lines[-1]["event"] == "started":
                ours.sendall(stop)
        child.wait(timeout=20)
    return lines


def order_of(*argv: bytes, timeout: bytes = b"20") -> bytes:
    no_walls = (b"0", b"0", b"0", b"0", b"0", b"0")
    words = (argv[0], b"%d" % len(argv), *argv)
    body = b"\0".join([timeout, b"0.3", *no_walls, b"/", *words, b"A=1"])
    return b"%d\n" % len(body) + body


def test_it_reports_the_start_and_the_end() -> None:
    started_report, ended = serve(order_of(b"/bin/sh", b"-c", b"exit 4"))

    assert started_report["event"] == "started"
    assert ended == {
        "event": "ended",
        "exit": 4,
        "signal": None,
        "cause": "exit",
        "survivors": 0,
        "left": 0,
        "ran": True,
    }


def test_it_reports_a_stop_a_deadline_and_the_loss_of_its_parents_end() -> None:
    sleeper = (b"/bin/sleep", b"60")

    assert serve(order_of(*sleeper), stop=warden.STOP_BYTE)[-1]["cause"] == "stop"
    assert serve(order_of(*sleeper, timeout=b"0.2"))[-1]["cause"] == "deadline"
    assert serve(order_of(*sleeper), hang_up=True)[-1]["cause"] == "orphaned"


def test_an_order_cut_short_starts_nothing() -> None:
    whole = order_of(b"/bin/sleep", b"60")

    for length in (0, 1, 3, len(whole) - 1):
        assert serve(whole[:length], hang_up=True) == []
