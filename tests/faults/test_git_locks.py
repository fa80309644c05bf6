"""Git locks: stale ones, short ones, and twenty runs at once on one repository.

A lock is waited for within a bound, named when it stays, and never removed: whoever holds it may be
writing.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from contracts.ids import new_job_id
from tests.support.broker import Broker
from tests.support.fleet import git, make_repository, place_program, wait_until
from tests.support.hosts import AGENT, Host, make_host, make_sender


def lock_of_its_branch(host: Host, job_id: str) -> Path:
    """Lock the ref that the job's branch will have, as a git that died while writing it does."""
    lock = host.repo / ".git" / "refs" / "heads" / "wt" / job_id / "T-1.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    return lock


def test_stale_locks_of_the_main_checkout_are_no_obstacle_and_stay(host: Host) -> None:
    locks = [host.repo / ".git" / name for name in ("index.lock", "packed-refs.lock", "HEAD.lock")]
    for lock in locks:
        lock.touch()
    host.run_honest_job()
    assert all(lock.exists() for lock in locks), "they are not ours to remove"


def test_a_short_lock_is_waited_for(host: Host) -> None:
    job_id = new_job_id()
    lock = lock_of_its_branch(host, job_id)
    host.push(host.job(jti=job_id))
    wait_until(lambda: f"claimed job={job_id}" in host.log, "the host has it")
    threading.Timer(1.0, lock.unlink).start()
    assert host.result(job_id).status == "completed"


def test_a_stale_lock_ends_the_job_with_a_typed_reason_and_is_not_removed(host: Host) -> None:
    job_id = new_job_id()
    lock = lock_of_its_branch(host, job_id)
    result = host.result(host.push(host.job(jti=job_id)))
    assert result.status == "failed"
    assert "git is locked" in result.summary
    assert "T-1.lock" in result.summary, "it names the lock"
    assert result.worktreePath == ""
    assert lock.exists()
    assert host.starts == 0
    host.run_honest_job()


def test_locks_that_an_agent_leaves_behind_hide_none_of_its_work(host: Host) -> None:
    """A git that died in the agent's own worktree: what we look with has an index of its own."""
    lines = "from pathlib import Path\n"
    lines += "admin = Path(Path('.git').read_text().split(None, 1)[1].strip())\n"
    for name in ("index.lock", "HEAD.lock"):
        lines += f"(admin / {name!r}).touch()\n"
    place_program(host.home / "bin", "codex", AGENT + lines)
    result = host.run_honest_job()
    assert result.changed_files == ("starts.txt",)
    assert (host.repo / ".git" / "worktrees" / result.jobId / "index.lock").exists()


@contextmanager
def outside_locks(repo: Path) -> Iterator[None]:
    """Let an owner's git work meanwhile: pack the refs and hold the index for moments."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.05):
            git(repo, "pack-refs", "--all")
            git(repo, "update-index", "--refresh")

    owner = threading.Thread(target=work)
    owner.start()
    try:
        yield
    finally:
        stop.set()
        owner.join(60)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_twenty_parallel_runs_on_one_repository_are_all_right(
    broker: Broker, tmp_path: Path
) -> None:
    repo = make_repository(tmp_path / "repo", {"readme.txt": "hello\n"})
    sender = make_sender(tmp_path / "sender")
    options = ("--concurrency", "10")
    hosts = [make_host(tmp_path, broker, sender, repo, n, options=options) for n in ("A", "B")]
    try:
        for host in hosts:
            host.start()
        with outside_locks(repo):
            jobs = [(host, host.push(host.job())) for _ in range(10) for host in hosts]
            results = [host.result(job_id, seconds=400) for host, job_id in jobs]
    finally:
        for host in hosts:
            host.stop()
    assert Counter(result.status for result in results) == {"completed": 20}
    assert [host.starts for host in hosts] == [10, 10]
    assert {result.changed_files for result in results} == {("starts.txt",)}
    listed = git(repo, "worktree", "list", "--porcelain").count("\nbranch refs/heads/wt/")
    assert listed == 20
    assert not list((repo / ".git").rglob("*.lock")) or _only_ours(repo)
    git(repo, "fsck", "--no-dangling")


def _only_ours(repo: Path) -> bool:
    return {path.name for path in (repo / ".git").rglob("*.lock")} == {"fleet-dispatch.lock"}
