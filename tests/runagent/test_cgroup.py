"""A run's cgroup: made where that may be, ended at once, found when all of ours was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runagent import _cgroup
from runagent._cgroup import PREFIX, end_all, find_leaves, make_leaf, members, own_cgroup, remove
from runagent.leftovers import Leftovers, end_leftovers
from runagent.process import EndState, ProcessSpec, run, system_runner
from tests.support.processes import is_alive, wait_until
from tests.support.tools import require_cgroup

pytestmark = pytest.mark.linux
MARKER = "0123456789abcdef"
# Sheds session and environment, is nobody's child, and is deaf: found by its cgroup or not at all.
SHED = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        code = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
        with open(sys.argv[1] + ".new", "w") as file:
            file.write(str(os.getpid()))
        os.rename(sys.argv[1] + ".new", sys.argv[1])
        os.execve(sys.executable, [sys.executable, "-ISEc", code], {})
    os._exit(0)
os.wait()
time.sleep(600)
"""


ROOT = Path(__file__).resolve().parents[2]
STARTER = f"""
import sys
from runagent.process import ProcessSpec, system_runner
system_runner().start(ProcessSpec(
    argv=(sys.executable, "-ISEc", {SHED!r}, sys.argv[1]),
    cwd="/", env={{}}, timeout_s=600, marker=sys.argv[2],
)).wait()
"""


@pytest.fixture
def leaf() -> Iterator[str]:
    """A cgroup of a run."""
    require_cgroup()
    made = make_leaf(MARKER, os.getpid())
    yield made
    end_all(made)
    wait_until(lambda: not members(made))
    remove(made)


def sleeper(leaf: str) -> subprocess.Popen[bytes]:
    child = subprocess.Popen([sys.executable, "-ISEc", "import time; time.sleep(600)"], env={})
    (Path(leaf) / "cgroup.procs").write_text(str(child.pid))
    return child


@pytest.mark.parametrize("has_kill", [True, False])
def test_all_that_is_in_it_or_below_it_ends(
    has_kill: bool, leaf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = Path(leaf) / "made-by-the-agent"
    below.mkdir()
    children = [sleeper(leaf), sleeper(str(below))]
    assert members(leaf) == {child.pid for child in children}
    if not has_kill:  # as before Linux 5.14
        write = _cgroup._write
        monkeypatch.setattr(
            _cgroup, "_write", lambda path, data: "cgroup.kill" not in path and write(path, data)
        )
    end_all(leaf)
    assert [child.wait(30) for child in children] == [-signal.SIGKILL] * 2
    remove(leaf)
    assert not os.path.exists(leaf)


def test_one_that_holds_us_is_neither_found_nor_ended(
    leaf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = sleeper(leaf)
    assert find_leaves(frozenset({MARKER})) == [leaf]
    monkeypatch.setattr(_cgroup, "own_cgroup", lambda: f"{leaf}/x")
    assert find_leaves(frozenset({MARKER})) == []
    end_all(leaf)
    monkeypatch.undo()
    assert child.poll() is None
    child.kill()
    child.wait(30)


def test_a_run_has_one_and_leaves_none(leaf: str) -> None:
    spec = ProcessSpec(
        argv=("cat", "/proc/self/cgroup"), cwd="/", env=dict(os.environ), timeout_s=60
    )
    outcome = run(system_runner(), spec)
    assert outcome.state is EndState.EXITED
    (line,) = [row for row in outcome.stdout.decode().splitlines() if row.startswith("0::")]
    assert PREFIX in line
    assert not os.path.exists(f"{own_cgroup()}/{line.rpartition('/')[2]}")
    missing = ProcessSpec(argv=("/bin/cat",), cwd="/nowhere", env={}, timeout_s=60, marker="m" * 9)
    assert run(system_runner(), missing).state is EndState.NOT_STARTED
    assert find_leaves(frozenset({"m" * 9})) == []


def test_our_own_git_has_none(leaf: str, tmp_path: Path) -> None:
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\ncat /proc/self/cgroup\n")
    program.chmod(0o755)
    spec = ProcessSpec(argv=(str(program),), cwd="/", env=dict(os.environ), timeout_s=60)
    assert PREFIX.encode() not in run(system_runner(), spec).stdout


def test_what_shed_all_is_found_after_its_warden_was_killed(leaf: str, tmp_path: Path) -> None:
    """It is nobody's child here: this runner is no guardian, as after the end of all of ours."""
    said, marker = tmp_path / "pid", "feedfacefeedface"
    ours = subprocess.Popen([sys.executable, "-c", STARTER, str(said), marker], cwd=ROOT)
    assert wait_until(said.exists, within_s=60)
    shed = int(said.read_text())
    (found,) = find_leaves(frozenset({marker}))
    warden = int(found.rpartition("-")[2])
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in (ours.pid, warden):
            os.kill(pid, number)
    ours.wait(30)
    assert is_alive(shed)
    try:
        ended = end_leftovers(Leftovers(markers=frozenset({marker})), grace_s=0.2)
        assert (ended.left, is_alive(shed)) == (0, False)
    finally:
        end_all(found)
    assert find_leaves(frozenset({marker})) == []


def test_where_no_hierarchy_is_to_be_seen_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    for mount, path in ((("", ""), "/"), (("/x", "/a"), "/b"), (("/x", "/"), "/../b")):
        monkeypatch.setattr(_cgroup, "_mount", lambda mount=mount: mount)
        monkeypatch.setattr(_cgroup, "_own_path", lambda path=path: path)
        assert own_cgroup() == ""
        assert make_leaf(MARKER, 1) == ""
    end_all("")
    remove("")
    _cgroup.join("")
    assert members("") == set()


def test_a_process_that_has_no_number_here_is_no_member(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").write_text("0\n12\n")
    assert members(str(tmp_path)) == {12}  # a signal to 0 would be one to our own group


def test_a_part_of_a_hierarchy_is_mounted_as_containers_have_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_cgroup, "_mount", lambda: ("/m", "/pod"))
    monkeypatch.setattr(_cgroup, "_own_path", lambda: "/pod/a")
    assert own_cgroup() == "/m/a"
    assert make_leaf(MARKER, 1) == ""
