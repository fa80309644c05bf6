"""A listener that has done a job keeps a spare tree, and the next job starts in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from contracts.clock import SystemClock
from tests.e2e.test_boxed_jobs import boxed
from tests.support.broker import Broker, broker
from tests.support.fleet import git, make_repository, wait_until
from tests.support.hosts import Host, make_host, make_sender
from tests.support.tools import require_tool
from worker.journal.journal import Journal

__all__ = ["broker"]

pytestmark = pytest.mark.linux


def spares_of(host: Host) -> list[Path]:
    """Return the trees of the spares that may be taken."""
    journal = Journal(host.journal_file, SystemClock())
    try:
        ready = [record.name for record in journal.spares.all() if record.is_ready]
    finally:
        journal.close()
    return [host.fleet_home / "state" / "spares" / name / "tree" for name in ready]


def test_the_second_job_on_a_repository_starts_in_the_spare_and_leaves_another(
    broker: Broker, tmp_path: Path
) -> None:
    require_tool("bwrap")
    repo = make_repository(tmp_path / "repo", {"readme.txt": "hello\n"})
    host = boxed(make_host(tmp_path, broker, make_sender(tmp_path / "sender"), repo), "bwrap")
    host.start()
    try:
        first = host.run_honest_job()
        wait_until(lambda: len(spares_of(host)) == 1, "a spare is there")
        (spare,) = spares_of(host)
        number = os.lstat(spare).st_ino
        second = host.run_honest_job()
        assert os.lstat(second.worktreePath).st_ino == number
        assert os.lstat(first.worktreePath).st_ino != number
        assert second.changed_files == first.changed_files == ("new.txt",)
        assert second.risks == first.risks
        assert git(repo, "log", "--format=%s", second.branch).split()[0] == "work"
        wait_until(lambda: len(spares_of(host)) == 1, "there is another one")
        listed = host.read_json("worktrees", "list")["worktrees"]
        assert {row["jobId"] for row in listed} == {first.jobId, second.jobId}
    finally:
        host.stop()


def test_a_listener_whose_agents_have_no_box_keeps_none(broker: Broker, tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo", {"readme.txt": "hello\n"})
    host = boxed(make_host(tmp_path, broker, make_sender(tmp_path / "sender"), repo), "none")
    host.start()
    try:
        host.run_honest_job()
        host.run_honest_job()
    finally:
        host.stop()
    assert not (host.fleet_home / "state" / "spares").exists()
