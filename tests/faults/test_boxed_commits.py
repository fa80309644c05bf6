"""Kill -9 of a run whose agent has committed in its box: the commits are in the real repository
before the job has its end, or they are kept and named."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.broker import Broker
from tests.support.fleet import git, make_repository, place_program, wait_until
from tests.support.host_acts import local_run
from tests.support.hosts import Host, are_gone, make_host, make_sender
from tests.support.tools import require_tool

pytestmark = pytest.mark.linux

# Commits in the box, says so in the tree, and stays. `RUIN` is what it does to its own git before.
COMMITTER = """
import os, subprocess, sys, time
if {"--version", "--help"} & set(sys.argv):
    sys.exit(print("scripted-codex 1.2.3"))
sys.stdin.read()
with open("new.txt", "w") as file:
    file.write("new\\n")
def git(*words):
    me = ("-c", "user.name=Agent", "-c", "user.email=agent@example.org")
    return subprocess.run(["git", *me, *words], check=True, capture_output=True, text=True).stdout
git("add", "-A")
git("commit", "-q", "-m", "boxed work")
git("branch", "beside")
RUIN = ""
exec(RUIN)
open("committed", "w").close()
time.sleep(600)
"""
NAMES_NO_COMMIT = """
ref = git("symbolic-ref", "HEAD").strip()
open(git("rev-parse", "--git-path", ref).strip(), "w").write("1" * 40)
"""
QUICK = "import sys; sys.stdin.read(); open('x', 'w')"


@pytest.fixture
def host(broker: Broker, tmp_path: Path) -> Iterator[Host]:
    require_tool("bwrap")
    repo = make_repository(tmp_path / "repo", {"readme.txt": "hello\n"})
    host = make_host(tmp_path, broker, make_sender(tmp_path / "sender"), repo)
    host.extra["FLEET_DISPATCH_SANDBOX"] = "bwrap"
    place_program(host.home / "bin", "codex", COMMITTER)
    host.start()
    try:
        yield host
    finally:
        host.stop()


def tree_of(host: Host, job_id: str) -> Path:
    return host.repo.with_name(f"{host.repo.name}-agents") / job_id


def box_of(host: Host, job_id: str) -> Path:
    return host.fleet_home / "state" / "runs" / job_id / "box"


def committed(host: Host) -> str:
    """Start a job and return its id when its agent has committed in the box, and nowhere else."""
    job_id = host.push(host.job())
    wait_until((tree_of(host, job_id) / "committed").exists, "the agent has committed", 90)
    assert "boxed work" not in log_of(host, job_id)
    assert (box_of(host, job_id) / "facts.json").stat().st_mode & 0o777 == 0o600
    return job_id


def log_of(host: Host, job_id: str) -> list[str]:
    return git(host.repo, "log", "--format=%s", f"wt/{job_id}/T-1").splitlines()


def kill_all(host: Host) -> None:
    """Kill the listener and all below it before any of them sees another one go."""
    assert host.process is not None
    family = host.family()
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in (psutil.Process(host.process.pid), *family):
            process.send_signal(number)
    host.kill()
    wait_until(lambda: are_gone(family), "nothing of the run is left")


def kill_listener_and_run(host: Host) -> None:
    """Kill these two; the wardens end the agent."""
    assert host.process is not None
    family, runs = host.family(), host.run_processes()
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in (psutil.Process(host.process.pid), *runs):
            process.send_signal(number)
    host.kill()
    wait_until(lambda: are_gone(family), "nothing of the run is left", 90)


@pytest.mark.parametrize("kill", [kill_all, kill_listener_and_run])
def test_what_was_committed_in_a_box_is_home_after_a_kill(
    kill: Callable[[Host], None], host: Host
) -> None:
    job_id = committed(host)
    kill(host)
    assert "boxed work" not in log_of(host, job_id), "nobody was left to bring it home"
    host.start()
    result = host.result(job_id, seconds=120)
    assert log_of(host, job_id)[0] == "boxed work"
    assert (result.status, [risk.code for risk in result.risks]) == (
        "failed",
        ["listener_lost", "branches_left_behind"],
    )
    assert result.known_risks == tuple(risk.message for risk in result.risks)
    assert not box_of(host, job_id).exists()
    assert git(host.repo, "branch", "--list", "beside") == "", "the job's ref alone moved"
    git(host.repo, "fsck", "--strict")
    assert git(tree_of(host, job_id), "status", "--porcelain").split() == ["??", "committed"]


def test_what_was_committed_in_a_box_is_home_when_the_run_process_was_killed(host: Host) -> None:
    job_id = committed(host)
    (run,) = host.run_processes()
    run.kill()
    result = host.result(job_id, seconds=120)
    assert [risk.code for risk in result.risks] == ["run_process_died", "branches_left_behind"]
    assert log_of(host, job_id)[0] == "boxed work"
    assert not box_of(host, job_id).exists()


def test_commits_that_cannot_come_home_are_kept_and_the_result_names_where(host: Host) -> None:
    script = COMMITTER.replace('RUIN = ""', f"RUIN = {NAMES_NO_COMMIT!r}")
    place_program(host.home / "bin", "codex", script)
    job_id = committed(host)
    kill_all(host)
    host.start()
    result = host.result(job_id, seconds=120)
    told = {risk.code: risk.message for risk in result.risks}
    assert str(box_of(host, job_id) / "git") in told["commits_not_taken"]
    assert sorted(path.name for path in box_of(host, job_id).iterdir()) == ["facts.json", "git"]
    assert "boxed work" not in log_of(host, job_id)
    assert host.stop() == 0
    host.start()
    assert (box_of(host, job_id) / "git").is_dir(), "the next start keeps it as well"


def test_a_killed_local_run_s_commits_are_brought_home_by_the_next_one(host: Host) -> None:
    assert host.stop() == 0
    killed = local_run(host)
    runs = host.fleet_home / "state" / "runs"
    trees = host.repo.with_name(f"{host.repo.name}-agents")
    wait_until(lambda: any(trees.glob("*/committed")), "the agent has committed", 90)
    (folder,) = runs.iterdir()
    family = psutil.Process(killed.pid).children(recursive=True)
    for process in family:
        process.suspend()
    killed.kill()
    killed.wait(30)
    assert (folder / "box").is_dir()
    place_program(host.home / "bin", "codex", QUICK)
    assert local_run(host).wait(120) == 0
    assert log_of(host, folder.name)[0] == "boxed work"
    assert not (folder / "box").exists()
