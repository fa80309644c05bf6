"""Nothing of a run outlives it, whatever it tries; each attempt first shown to beat killpg."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from runagent import warden
from runagent.process import EndState, ProcessSpec, run, system_runner
from tests.support.processes import (
    break_chain,
    end_all,
    is_alive,
    is_chain_beating,
    new_token,
    parent_of,
    runaway_argv,
    state_of,
    wait_until,
    with_token,
    zombies_of,
)

pytestmark = pytest.mark.linux
ROOT = Path(__file__).resolve().parents[2]

# name -> words of the runaway; the leader stays, or leaves on TERM, or exits by itself
ESCAPES = {
    "a descendant in a session of its own": ("setsid", "stay"),
    "a double fork that ignores TERM": ("double", "stay"),
    "a leader that goes on TERM while a grandchild ignores it": ("deaf", "leave"),
    "an emptied environment": ("clean", "stay"),
    "a chain that forks again whenever it is looked at": ("chain", "leave"),
    "a leader that ignores TERM": ("setsid", "deafstay"),
}


def spec_of(folder: Path, argv: tuple[str, ...], *, timeout_s: float = 20.0) -> ProcessSpec:
    return ProcessSpec(
        argv=argv,
        cwd=str(folder),
        env={"PATH": os.defpath, "LC_ALL": "C"},
        timeout_s=timeout_s,
        grace_s=0.3,
    )


@pytest.mark.parametrize("words", ESCAPES.values(), ids=ESCAPES.keys())
def test_control_killpg_leaves_survivors(tmp_path: Path, words: tuple[str, ...]) -> None:
    token = new_token()
    argv = runaway_argv(tmp_path, token, *words)
    leader = subprocess.Popen(argv, start_new_session=True, stdout=subprocess.PIPE)
    assert leader.stdout is not None
    try:
        assert leader.stdout.readline() == b"up\n"
        os.killpg(leader.pid, signal.SIGTERM)
        if words[-1] == "deafstay":
            leader.kill()
        leader.wait(timeout=10)
        if "chain" in words:  # each link lives too briefly to be seen for sure
            assert is_chain_beating(tmp_path)
        else:
            assert wait_until(lambda: with_token(token), within_s=1)
    finally:
        break_chain(tmp_path)
        end_all(token)
        leader.kill()
        leader.wait()
        leader.stdout.close()


@pytest.mark.parametrize("words", ESCAPES.values(), ids=ESCAPES.keys())
def test_the_deadline_leaves_no_survivor(
    tmp_path: Path, token: str, words: tuple[str, ...]
) -> None:
    argv = runaway_argv(tmp_path, token, *words)
    began = time.monotonic()
    outcome = run(system_runner(), spec_of(tmp_path, argv, timeout_s=1.0))

    took_s = time.monotonic() - began
    assert with_token(token) == []
    assert not is_chain_beating(tmp_path)
    assert outcome.state is EndState.TIMED_OUT
    assert took_s < 1.0 + 0.3 + 2
    assert outcome.stdout == b"up\n"


@pytest.mark.parametrize("word", ["setsid", "double", "deaf", "clean", "chain"])
def test_a_plain_exit_leaves_no_survivor_and_counts_them(
    tmp_path: Path, token: str, word: str
) -> None:
    outcome = run(system_runner(), spec_of(tmp_path, runaway_argv(tmp_path, token, word, "exit")))

    assert with_token(token) == []
    assert not is_chain_beating(tmp_path)
    assert (outcome.state, outcome.exit_code) == (EndState.EXITED, 0)
    assert outcome.survivors >= 1


def test_a_run_that_leaves_nothing_counts_no_survivor(tmp_path: Path) -> None:
    argv = ("sh", "-c", "sleep 0.05 & true")
    assert run(system_runner(), spec_of(tmp_path, argv)).survivors == 0


def test_a_descendant_that_holds_the_pipes_cannot_hold_us(tmp_path: Path, token: str) -> None:
    argv = runaway_argv(tmp_path, token, "double", "hold")
    began = time.monotonic()
    outcome = run(system_runner(), spec_of(tmp_path, argv))

    assert (outcome.state, outcome.exit_code) == (EndState.EXITED, 0)
    assert time.monotonic() - began < 3
    assert with_token(token) == []


def test_a_foreign_process_that_holds_a_pipe_cannot_hold_us(tmp_path: Path, token: str) -> None:
    # Given a process outside the tree that opens the run's stdout through /proc
    thief = (
        "import os, sys, time\n"
        "fd = os.open(f'/proc/{sys.argv[2]}/fd/1', os.O_WRONLY)\n"
        "os.write(fd, b'mine'); time.sleep(60)\n"
    )
    running = system_runner().start(spec_of(tmp_path, ("sleep", "60"), timeout_s=1.5))
    foreign = subprocess.Popen((sys.executable, "-c", thief, token, str(running.pid)))
    try:
        began = time.monotonic()
        outcome = running.wait()
        assert outcome.state is EndState.TIMED_OUT
        assert outcome.stdout == b"mine"
        assert time.monotonic() - began < 1.5 + 0.3 + 2.5
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()


def test_a_storm_of_forks_under_a_limit_is_over_within_five_seconds_of_the_deadline(
    tmp_path: Path, token: str
) -> None:
    argv = runaway_argv(tmp_path, token, "storm*3", "chain*10", "stay")
    began = time.monotonic()
    outcome = run(system_runner(), spec_of(tmp_path, argv, timeout_s=1.5))

    took_s = time.monotonic() - began
    assert with_token(token) == []
    assert not is_chain_beating(tmp_path)
    assert outcome.state is EndState.TIMED_OUT
    assert outcome.survivors > 20
    assert took_s < 1.5 + 5


def test_stopped_processes_are_ended_too(tmp_path: Path, token: str) -> None:
    argv = ("sh", "-c", "kill -STOP $$", token)
    outcome = run(system_runner(), spec_of(tmp_path, argv, timeout_s=0.5))

    assert outcome.state is EndState.TIMED_OUT
    assert with_token(token) == []


def test_two_hundred_runs_leave_no_zombie_and_no_descriptor(tmp_path: Path) -> None:
    runner = system_runner()
    run(runner, spec_of(tmp_path, ("true",)))
    before = len(os.listdir("/proc/self/fd"))

    def many() -> None:
        for _ in range(100):
            run(runner, spec_of(tmp_path, ("true",)))

    threads = [threading.Thread(target=many) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert zombies_of(os.getpid()) == []
    assert len(os.listdir("/proc/self/fd")) <= before


def test_daemonised_children_do_not_pile_up_as_zombies_while_the_leader_runs(
    tmp_path: Path,
) -> None:
    script = "for i in 1 2 3 4 5 6 7 8 9 10; do (true &) ; done; echo up; sleep 60"
    running = system_runner().start(spec_of(tmp_path, ("sh", "-c", script)))
    try:
        watcher = parent_of(running.pid)
        assert wait_until(lambda: not zombies_of(watcher), within_s=3)
    finally:
        running.abort("enough")
        running.wait()


PARENT = """
import sys, threading, os
from runagent.process import ProcessSpec, system_runner
spec = ProcessSpec(argv=tuple(sys.argv[2:]), cwd="/", env={"PATH": os.defpath},
                   timeout_s=60, grace_s=0.3)
if sys.argv[1] == "forked":       # a copy of our descriptors outlives us
    running = system_runner().start(spec)
    if os.fork() == 0:
        import time
        time.sleep(20)
        os._exit(0)
elif sys.argv[1] == "thread":     # the thread that started it ends at once
    box = []
    thread = threading.Thread(target=lambda: box.append(system_runner().start(spec)))
    thread.start()
    thread.join()
    running = box[0]
else:
    running = system_runner().start(spec)
print(running.pid, os.getpid(), flush=True)
print(running.wait().state, flush=True)
"""


def start_parent(folder: Path, token: str, how: str, *words: str) -> subprocess.Popen[bytes]:
    argv = (sys.executable, "-c", PARENT, how, *runaway_argv(folder, token, *words))
    return subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=ROOT, env={"PATH": os.defpath})


@pytest.mark.parametrize("how", ["plain", "forked", "thread"])
def test_when_whoever_started_it_is_killed_the_whole_tree_ends(
    tmp_path: Path, token: str, how: str
) -> None:
    parent = start_parent(tmp_path, token, how, "setsid", "double", "clean", "chain", "deafstay")
    assert parent.stdout is not None
    leader = int(parent.stdout.readline().split()[0])
    watcher = parent_of(leader)
    copies = [pid for pid in with_token(token) if parent_of(pid) == parent.pid and pid != watcher]
    try:
        assert wait_until(lambda: len(with_token(token)) >= 5)
        assert wait_until(lambda: is_chain_beating(tmp_path))
        parent.kill()
        parent.wait()
        # the parent's forked copy carries the token in its arguments and is not of the run
        assert wait_until(lambda: set(with_token(token)) <= set(copies), within_s=8)
        assert wait_until(lambda: not is_alive(watcher), within_s=3)
        assert not is_chain_beating(tmp_path)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()


def test_the_end_of_the_thread_that_started_it_does_not_end_it(tmp_path: Path, token: str) -> None:
    parent = start_parent(tmp_path, token, "thread", "stay")
    assert parent.stdout is not None
    try:
        leader = int(parent.stdout.readline().split()[0])
        assert not wait_until(lambda: not is_alive(leader), within_s=1.5)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    assert wait_until(lambda: not with_token(token), within_s=8)


def test_when_the_watching_process_is_killed_the_tree_is_swept_and_it_is_said(
    tmp_path: Path, token: str
) -> None:
    argv = runaway_argv(tmp_path, token, "double", "setsid", "deaf", "deafstay")
    running = system_runner().start(spec_of(tmp_path, argv))
    assert wait_until(lambda: len(with_token(token)) >= 4)
    os.kill(parent_of(running.pid), signal.SIGKILL)
    outcome = running.wait()

    assert with_token(token) == []
    assert outcome.state is EndState.ABORTED
    assert "lost" in outcome.why
    assert outcome.exit_code is None
    assert outcome.survivors >= 2


def test_a_watching_process_that_is_stopped_does_not_stop_the_deadline(
    tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warden, "CEILING_S", 0.1)  # of our own second deadline
    argv = runaway_argv(tmp_path, token, "double", "stay")
    running = system_runner().start(spec_of(tmp_path, argv, timeout_s=1.0))
    watcher = parent_of(running.pid)
    os.kill(watcher, signal.SIGSTOP)
    assert wait_until(lambda: state_of(watcher) == "T")
    began = time.monotonic()
    outcome = running.wait()

    assert outcome.state is EndState.TIMED_OUT
    assert "lost" in outcome.why
    assert time.monotonic() - began < 6
    assert with_token(token) == []
    assert not is_alive(watcher)


def test_a_watching_process_that_is_told_to_stop_ends_the_tree(tmp_path: Path, token: str) -> None:
    argv = runaway_argv(tmp_path, token, "double", "stay")
    running = system_runner().start(spec_of(tmp_path, argv))
    assert wait_until(lambda: len(with_token(token)) >= 2)
    os.kill(parent_of(running.pid), signal.SIGTERM)
    outcome = running.wait()

    assert outcome.state is EndState.ABORTED
    assert "signal" in outcome.why
    assert with_token(token) == []


def test_ctrl_c_ends_the_tree_before_it_is_raised(tmp_path: Path, token: str) -> None:
    script = PARENT.replace(
        "print(running.wait().state, flush=True)",
        "from runagent import process\n"
        "class Started:\n"
        "    def start(self, spec): return running\n"
        "try:\n"
        "    process.run(Started(), spec)\n"
        "except KeyboardInterrupt:\n"
        "    print('raised', flush=True)\n",
    )
    argv = (sys.executable, "-c", script, "plain", *runaway_argv(tmp_path, token, "double", "stay"))
    parent = subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=ROOT, env={"PATH": os.defpath})
    assert parent.stdout is not None
    try:
        parent.stdout.readline()
        assert wait_until(lambda: len(with_token(token)) >= 3)
        parent.send_signal(signal.SIGINT)
        assert parent.stdout.readline() == b"raised\n"
        assert [pid for pid in with_token(token) if pid != parent.pid] == []
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
