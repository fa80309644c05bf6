"""Nothing of a run survives it, in any sandbox and without one, however it ends and whatever of
ours is killed; each trick is shown to leave something behind when nobody hunts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.run_agent import Status
from tests.support.boxes import BoxBench, Make
from tests.support.processes import (
    RUNAWAY,
    end_all,
    hunted,
    is_alive,
    parent_of,
    wait_until,
    with_token,
)

pytestmark = pytest.mark.linux

ROOT = Path(__file__).resolve().parents[3]
MODES = ("bwrap", "landlock", "none")
TRICKS = ("setsid", "double", "deaf", "clean", "chain")


@pytest.fixture
def token() -> Iterator[str]:
    """A text that only this test's processes carry."""
    with hunted() as text:
        yield text


def runaway(bench: BoxBench, token: str, *words: str) -> str:
    """Return the shell line of a program that tries to outlive its run."""
    script = bench.bin / "runaway.py"  # where the box shows it
    script.write_text(RUNAWAY.replace('__file__ + ".beat"', 'os.environ.get("BEAT", "beat")'))
    python = os.path.realpath(sys.executable)
    return f"export BEAT=$PWD/beat; {python} -ISE {script} {token} {' '.join(words)}"


def is_beating(tree: Path) -> bool:
    """Say whether a chain of forks still writes its beat: a link lives too briefly to be seen."""
    beat = tree / "beat"
    if not beat.exists():
        return False
    before = beat.stat().st_size
    return wait_until(lambda: beat.stat().st_size > before, within_s=0.5)


def tree_of(bench: BoxBench) -> Path:
    """Return the one worktree of the bench."""
    (tree,) = Path(f"{bench.repo}-agents").iterdir()
    return tree


@pytest.mark.parametrize("trick", TRICKS)
def test_every_trick_leaves_something_behind_when_only_its_group_is_ended(
    make: Make, token: str, trick: str
) -> None:
    bench = make("none")
    line = runaway(bench, token, trick, "leave")
    leader = subprocess.Popen(
        ("bash", "-c", f"cd {bench.outside}; {line}"), start_new_session=True, stdout=-1
    )
    assert leader.stdout is not None
    assert leader.stdout.readline() == b"up\n"
    os.killpg(leader.pid, signal.SIGTERM)
    leader.wait(timeout=30)
    leader.stdout.close()
    left = is_beating(bench.outside) if trick == "chain" else wait_until(lambda: with_token(token))
    (bench.bin / "runaway.py").unlink()  # a chain goes on only while its script is there
    end_all(token)
    assert left


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("trick", TRICKS)
def test_after_a_plain_end_nothing_is_left(make: Make, token: str, mode: str, trick: str) -> None:
    bench = make(mode)
    result = bench.act(runaway(bench, token, trick, "exit"))
    assert (result.status, result.exitCode) == (Status.COMPLETED, 0)
    assert with_token(token) == []
    assert not is_beating(Path(result.worktreePath))


@pytest.mark.parametrize("mode", MODES)
def test_at_its_deadline_nothing_is_left(make: Make, token: str, mode: str) -> None:
    bench = make(mode)
    result = bench.act(runaway(bench, token, *TRICKS, "deafstay"), limit_s=3)
    assert result.status is Status.TIMED_OUT
    assert with_token(token) == []
    assert not is_beating(Path(result.worktreePath))


@pytest.mark.parametrize("mode", MODES)
def test_after_a_stop_from_outside_nothing_is_left(make: Make, token: str, mode: str) -> None:
    bench = make(mode)
    stop = threading.Event()

    def stop_when_up() -> None:
        wait_until(lambda: len(with_token(token)) >= 4, within_s=60)
        stop.set()

    watcher = threading.Thread(target=stop_when_up)
    watcher.start()
    line = runaway(bench, token, *TRICKS, "deafstay")
    result = bench.act(line, ports={"cancelled": stop})
    watcher.join()
    assert "interrupted" in {risk.code for risk in result.risks}
    assert with_token(token) == []
    assert not is_beating(Path(result.worktreePath))


@pytest.mark.parametrize("mode", MODES)
def test_what_a_validator_leaves_behind_is_ended_too(make: Make, token: str, mode: str) -> None:
    bench = make(mode)
    line = runaway(bench, token, *TRICKS, "exit")
    result = bench.act("echo x > new.txt\n", validateCommand=line)
    assert result.validation.ran
    assert with_token(token) == []
    assert not is_beating(Path(result.worktreePath))


# A run in a process of its own, as a listener and `run-agent` have it: it is the guardian.
RUN = """
import json, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.support.boxes import BoxBench
from runagent.process import system_runner
bench = BoxBench.again(Path({folder!r}), {mode!r})
result = bench.carry_out(bench.order(), {{
    "sandbox": bench.sandbox, "runner": system_runner(is_guardian=True)
}})
print(result.to_json(), flush=True)
"""


def start_run(bench: BoxBench) -> subprocess.Popen[bytes]:
    """Start the run of the agent that is in place, in a process of its own."""
    text = RUN.format(root=str(ROOT), folder=str(bench.folder), mode=bench.mode)
    argv = (sys.executable, "-c", text)
    return subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=ROOT)


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_that_kills_its_watching_process_and_sheds_everything_is_ended(
    make: Make, token: str, mode: str
) -> None:
    """Its daemons have no session, no environment and no parent of ours; then the one process that
    could find them is killed. In the box it is out of sight."""
    bench = make(mode)
    line = runaway(bench, token, "clean", "double", "chain", "exit")
    python = os.path.realpath(sys.executable)
    kill = (
        f"{python} -ISEc 'import os, signal; parent = os.getppid()\n"
        'up = lambda pid: int(open("/proc/%d/stat" % pid).read().rpartition(")")[2].split()[1])\n'
        "os.kill(up(parent), signal.SIGKILL)'"
    )
    bench.place(f"{line}\nfor i in 1 2 3; do {kill}; done; sleep 3\n")
    run = start_run(bench)
    try:
        out, _ = run.communicate(timeout=120)
        assert with_token(token) == []
        assert not is_beating(tree_of(bench))
        assert b"worktreePath" in out
    finally:
        run.kill()
        run.wait()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("victim", ["the run", "the watching process"])
def test_when_a_process_of_ours_is_killed_the_run_is_ended(
    make: Make, token: str, mode: str, victim: str
) -> None:
    bench = make(mode)
    bench.place(runaway(bench, token, *TRICKS, "deafstay"))
    run = start_run(bench)
    try:
        assert wait_until(lambda: len(with_token(token)) >= 5, within_s=60)
        assert wait_until(lambda: is_beating(tree_of(bench)), within_s=30)
        wardens = [pid for pid in children_of(run.pid) if is_alive(pid)]
        os.kill(run.pid if victim == "the run" else wardens[-1], signal.SIGKILL)
        assert wait_until(lambda: not with_token(token), within_s=30)
        assert wait_until(lambda: not is_beating(tree_of(bench)), within_s=30)
    finally:
        if victim == "the run":
            run.kill()
        run.communicate(timeout=120)


def children_of(parent: int) -> list[int]:
    """Return the living children of `parent`, oldest first."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if parent_of(int(entry.name)) == parent:
                    found.append(int(entry.name))
            except (OSError, IndexError):
                continue
    return sorted(found)
