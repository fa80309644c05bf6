"""Twenty jobs of two listeners on one repository, while trees are removed, restored and collected,
and the owner runs `git gc` and prunes: every result right, no work lost, the checkout untouched."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from contracts.run_agent import RunAgentResult
from tests.support.broker import Broker
from tests.support.fleet import git, make_repository, place_program, wait_until
from tests.support.hosts import Host, make_host, make_sender
from tests.support.repositories import attempt_git, state_of

JOBS = 20
_VERB = "from dispatch.cli import main; main()"
_AGENT = """
import subprocess, sys
from pathlib import Path
if {"--version", "--help"} & set(sys.argv):
    print("scripted-codex 1.2.3")
    sys.exit()
words = sys.stdin.read().split()
if "nothing" not in words:
    Path(f"{words[0]}.txt").write_text(f"work of {words[0]}\\n")
if "commit" in words:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.invalid"]
    subprocess.run(["git", "add", "-A"], check=True)
    subprocess.run(["git", *who, "commit", "-q", "-m", f"work of {words[0]}"], check=True)
print('{"type":"turn.completed"}')
"""
_KINDS = ("write", "commit", "nothing", "write and restore")


@dataclass(frozen=True)
class Sent:
    """A job of this test: which host, what its agent does, and its id."""

    host: Host
    number: int
    job_id: str

    @property
    def kind(self) -> str:
        return _KINDS[self.number % len(_KINDS)]

    @property
    def file(self) -> str:
        return f"job-{self.number}.txt"

    @property
    def tree(self) -> Path:
        return Path(f"{self.host.repo}-agents") / self.job_id

    def worktrees(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the verb on this job's host."""
        return subprocess.run(
            [sys.executable, "-P", "-c", _VERB, "worktrees", *words],
            env=self.host.environment, cwd=self.host.home, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip


class Times(list[int]):
    """Grows with each time that something was done."""

    is_broken = False


@contextmanager
def again_and_again(act: Callable[[], None]) -> Iterator[Times]:
    """Do `act` over and over in a thread; yield a list that grows with each time. What it raises
    ends the thread and is raised at the end."""
    over, times = threading.Event(), Times()

    def loop() -> None:
        try:
            while not over.is_set():
                act()
                times.append(1)
        except BaseException:
            times.is_broken = True
            raise

    with ThreadPoolExecutor(max_workers=1) as pool:
        looping = pool.submit(loop)
        try:
            yield times
        finally:
            over.set()
        looping.result(300)


@pytest.fixture
def hosts(tmp_path: Path, broker: Broker) -> Iterator[tuple[Host, Host]]:
    repo = make_repository(tmp_path / "repo", {"readme.txt": "hello\n"})
    sender = make_sender(tmp_path / "sender")
    with ExitStack() as stack:
        pair = []
        for name in ("HOSTA", "HOSTB"):
            host = make_host(tmp_path, broker, sender, repo, name, options=("--concurrency", "4"))
            place_program(host.home / "bin", "codex", _AGENT)
            settings = host.fleet_home / "config.toml"
            settings.write_text("[worktrees]\nmax_count = 1\ngrace_days = 1\n")
            host.start()
            stack.callback(host.stop)
            pair.append(host)
        yield pair[0], pair[1]


@pytest.mark.slow
@pytest.mark.timeout(1_500)
def test_twenty_jobs_come_out_right_beside_removals_collections_and_the_owners_git_gc(
    hosts: tuple[Host, Host],
) -> None:
    repo = hosts[0].repo
    before = _checkout(repo)
    sent = []
    for number in range(JOBS):
        host = hosts[number % 2]
        payload = host.payload(task=f"job-{number} {_KINDS[number % len(_KINDS)]}")
        sent.append(Sent(host, number, host.push(host.job(payload=payload))))
    waiting = [job for job in sent if job.kind == "write and restore"]
    with (
        again_and_again(lambda: _own_git(repo)) as cleaned,
        again_and_again(lambda: _collect(sent[0])) as collected_a,
        again_and_again(lambda: _collect(sent[1])) as collected_b,
        again_and_again(lambda: _remove_and_restore(waiting)) as restored,
    ):
        results = [job.host.result(job.job_id, seconds=900) for job in sent]
        wait_until(
            lambda: restored.is_broken or not waiting, "each of those trees went and came back", 300
        )
    assert all((cleaned, collected_a, collected_b))
    for job, result in zip(sent, results, strict=True):
        assert_right(job, result)
    for host in hosts:
        assert_knows_its_own(host, [job for job in sent if job.host is host])
    assert _checkout(repo) == before
    assert git(repo, "status", "--porcelain") == ""
    assert attempt_git(repo, "fsck", "--strict").returncode == 0
    assert {path.name for path in (repo / ".git").rglob("*.lock")} == {"fleet-dispatch.lock"}


def _checkout(repo: Path) -> dict[str, str]:
    return {name: value for name, value in state_of(repo).items() if not name.startswith(".git")}


def _own_git(repo: Path) -> None:
    attempt_git(repo, "gc", "--quiet", "--prune=now")
    attempt_git(repo, "worktree", "prune", "--expire=now")


def _collect(job: Sent) -> None:
    done = job.worktrees("gc", "--json")
    assert done.returncode == 0, done.stderr


def _remove_and_restore(waiting: list[Sent]) -> None:
    """Remove and restore each tree whose job has ended; one that is still held is tried again."""
    for job in list(waiting):
        if job.host.stored(job.job_id) is None:
            continue
        if job.worktrees("remove", job.job_id, "--force").returncode == 0:
            assert not job.tree.exists()
            again = job.worktrees("restore", job.job_id)
            assert again.returncode == 0, again.stderr
            waiting.remove(job)
    threading.Event().wait(0.2)


def assert_knows_its_own(host: Host, jobs: list[Sent]) -> None:
    """Fail unless a host's register holds nothing but trees of its own jobs, all of them sound."""
    rows = json.loads(jobs[0].worktrees("list", "--json").stdout)["worktrees"]
    assert {row["jobId"] for row in rows} <= {job.job_id for job in jobs}
    assert json.loads(jobs[0].worktrees("gc", "--json").stdout)["problems"] == []


def assert_right(job: Sent, result: RunAgentResult) -> None:
    """Fail unless a job's result and what it left are what its agent did."""
    context = f"{job.kind} {result}\n{job.host.log[-3_000:]}"
    assert result.status == "completed", context
    assert result.attempts == 1, context
    wanted = () if job.kind == "nothing" else (job.file,)
    assert result.changed_files == wanted, context
    assert {risk.code for risk in result.risks} <= {"validation_skipped", "no_changes"}, context
    branches = git(job.host.repo, "branch", "--list", f"wt/{job.job_id}/*").split()
    if job.kind == "nothing":
        assert job.tree.exists() == bool(branches), "a tree and its branch go together"
        return
    assert (job.tree / job.file).read_text() == f"work of job-{job.number}\n"
    assert f"wt/{job.job_id}/T-1" in branches
    said = git(job.tree, "log", "-1", "--format=%s").strip()
    assert said == (f"work of job-{job.number}" if job.kind == "commit" else "as received")
