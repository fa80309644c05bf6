"""Spare trees on a host: who gets one, when one goes, and what a crash leaves of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from contracts.clock import SystemClock
from contracts.errors import Unavailable
from contracts.ids import new_job_id
from contracts.sandbox import Capability
from dispatch.config_worktrees import WorktreesSection
from runagent.process import system_runner
from runagent.sandbox.landlock import Landlock
from runagent.sandbox.masks import Private
from runagent.sandbox.none import NoSandbox
from runagent.sandbox.protocol import Sandbox
from runagent.trees.tree_registry import PlannedTree
from runagent.trees.worktree import prepare_worktree
from tests.support.repositories import git, make_repository
from tests.support.unprivileged import PROJECT
from worker.journal.journal import Journal
from worker.journal.records import NewJob
from worker.spare_shelf import SpareShelf, hides_spares
from worker.trees.spare_keeper import IN_USE_S, SpareKeeper

BOX = Landlock(
    private=Private(config_dir="/c", keys_dir="/k", state_dir="/s"),
    caches=(),
    enforces=frozenset({Capability.WRITES, Capability.KEYS}),
)


class Host:
    """The journal, the shelf and the repositories of one host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = Journal(folder / "state" / "journal.sqlite3", SystemClock())
        self.shelf = SpareShelf(self.journal.spares, folder / "state" / "spares")
        self.said: list[tuple[str, dict[str, Any]]] = []

    def keeper(self, *, sandbox: Sandbox = BOX, free: int | None = None, **policy: int) -> Any:
        """Return a keeper under a policy."""
        return SpareKeeper(
            self.journal,
            self.shelf,
            WorktreesSection(**policy),
            sandbox=lambda: sandbox,
            runner=system_runner(),
            clock=SystemClock(),
            say=lambda what, **details: self.said.append((what, details)),
            timeout_s=60.0,
            free=lambda _path: free,
        )

    def repository(self, name: str) -> Path:
        """Make a repository that had a job just now."""
        repo = make_repository(self.folder / name, {"a.txt": "a\n", "b/c.txt": "c\n"})
        self.use(repo)
        return repo

    def use(self, repo: Path) -> str:
        """Write down a job's worktree of `repo`, and that the job ended."""
        job = new_job_id()
        self.journal.trees.plan(
            PlannedTree(
                job_id=job,
                path=f"{repo}-agents/{job}",
                repo=str(repo),
                common_dir=str(repo / ".git"),
                branch=f"wt/{job}/T-1",
                base_commit=git(repo, "rev-parse", "HEAD"),
                ticket="T-1",
            )
        )
        self.journal.claim(NewJob(jti=job, facts={}))
        self.journal.finish(job, b"{}")
        return job

    def spared(self) -> list[str]:
        """Return the repositories that have a spare that may be taken, and check its folder."""
        ready = [record for record in self.journal.spares.all() if record.is_ready]
        for record in ready:
            assert Path(self.shelf.place(record.name), "tree", "a.txt").read_text() == "a\n"
        return sorted(Path(record.repo).name for record in ready)

    def folders(self) -> list[str]:
        """Return what stands on the shelf."""
        return sorted(os.listdir(self.shelf.folder)) if self.shelf.folder.is_dir() else []

    def make(self, repo: Path, **given: Any) -> Path:
        """Make the worktree of a job, from a spare if there is one."""
        job = new_job_id()
        worktree = prepare_worktree(
            str(repo),
            job_id=job,
            ticket="T-1",
            branch=None,
            shadow_dir=str(self.folder / job),
            runner=system_runner(),
            deadline_s=60.0,
            spares=self.shelf,
            **given,
        )
        return Path(worktree.path)


@pytest.fixture
def host(tmp_path: Path) -> Any:
    made = Host(tmp_path)
    yield made
    made.journal.close()


def test_each_repository_in_use_gets_one_spare_in_a_private_folder(host: Host) -> None:
    host.repository("one")
    host.repository("two")
    make_repository(host.folder / "unused")
    keeper = host.keeper()
    keeper.tend()
    keeper.tend()
    assert host.spared() == ["one", "two"]
    assert len(host.folders()) == 2
    for path in (host.shelf.folder, *host.shelf.folder.iterdir()):
        assert path.stat().st_mode & 0o777 == 0o700


def test_a_spare_is_in_no_list_of_worktrees(host: Host) -> None:
    repo = host.repository("one")
    standing = [record.job for record in host.journal.trees.standing()]
    host.keeper().tend()
    assert [record.job for record in host.journal.trees.standing()] == standing
    assert "spares" not in git(repo, "worktree", "list")


def test_a_job_takes_the_spare_and_the_next_tending_makes_another(host: Host) -> None:
    repo = host.repository("one")
    host.keeper().tend()
    number = (host.shelf.folder / host.folders()[0] / "tree").stat().st_ino
    assert host.make(repo).stat().st_ino == number
    assert (host.spared(), host.folders()) == ([], [])
    assert host.make(repo).stat().st_ino != number, "there is none: a checkout"
    host.keeper().tend()
    assert host.spared() == ["one"]


def test_two_jobs_at_once_take_a_spare_at_most_once(host: Host) -> None:
    repo = host.repository("one")
    host.keeper().tend()
    journals = [Journal(host.folder / "state" / "journal.sqlite3", SystemClock()) for _ in "1234"]
    gate = threading.Barrier(len(journals))

    def take(journal: Journal) -> object:
        gate.wait()
        return journal.spares.take(str(repo / ".git"), new_job_id())

    with ThreadPoolExecutor(len(journals)) as pool:
        taken = list(pool.map(take, journals))
    for journal in journals:
        journal.close()
    assert sum(record is not None for record in taken) == 1


def test_the_latest_repositories_come_first_when_there_are_more_than_spares(host: Host) -> None:
    for name in ("one", "two", "three"):
        host.repository(name)
    host.keeper(spares=2).tend()
    assert host.spared() == ["three", "two"]
    host.keeper(spares=1).tend()
    assert (host.spared(), len(host.folders())) == (["three"], 1)
    host.keeper(spares=0).tend()
    assert (host.spared(), host.folders()) == ([], [])


def test_no_spare_is_made_or_kept_beyond_its_bytes(host: Host) -> None:
    host.repository("one")
    host.keeper(spare_bytes=1).tend()
    assert (host.spared(), host.folders()) == ([], [])
    host.use(host.folder / "one")
    host.keeper().tend()
    assert host.spared() == ["one"]
    host.keeper(spare_bytes=1).tend()
    assert (host.spared(), host.folders()) == ([], [])


def test_a_repository_that_was_refused_is_not_tried_again_at_the_same_commit(host: Host) -> None:
    host.repository("one")
    keeper = host.keeper(spare_bytes=1)
    keeper.tend()
    keeper.tend()
    assert [what for what, _ in host.said] == ["spare_not_made"]


def test_nothing_is_made_without_a_box_and_what_was_made_goes(host: Host) -> None:
    repo = host.repository("one")
    host.keeper(sandbox=NoSandbox()).tend()
    assert host.spared() == []
    host.keeper().tend()
    assert host.spared() == ["one"]
    host.keeper(sandbox=NoSandbox()).tend()
    assert (host.spared(), host.folders()) == ([], [])
    assert not hides_spares(NoSandbox())
    assert host.make(repo).is_dir()


def test_nothing_is_made_while_it_cannot_be_told_what_agents_run_in(host: Host) -> None:
    host.repository("one")
    keeper = host.keeper()

    def fail() -> Sandbox:
        raise Unavailable("the sandbox bwrap does not work here")

    keeper._sandbox = fail
    keeper.tend()
    assert host.spared() == []


def test_a_disk_near_its_floor_gets_no_spare_and_loses_those_it_has(host: Host) -> None:
    host.repository("one")
    host.keeper(free=1000, disk_floor_bytes=2000).tend()
    assert host.spared() == []
    host.keeper().tend()
    assert host.spared() == ["one"]
    host.keeper(free=1000, disk_floor_bytes=2000).tend()
    assert (host.spared(), host.folders()) == ([], [])


def test_a_repository_that_is_not_used_any_more_or_gone_loses_its_spare(host: Host) -> None:
    host.repository("one")
    repo = host.repository("two")
    host.keeper().tend()
    with host.journal._file.writing() as database:
        database.execute(
            "UPDATE trees SET made_at = made_at - ? WHERE repo LIKE '%/one'", (IN_USE_S,)
        )
    repo.rename(host.folder / "elsewhere")
    host.keeper().tend()
    assert (host.spared(), host.folders()) == ([], [])


def test_a_shelf_that_cannot_be_made_costs_the_job_its_time_alone(host: Host) -> None:
    repo = host.repository("one")
    host.shelf.folder.write_text("somebody's file")
    host.keeper().tend()
    assert [what for what, _ in host.said] == ["spare_not_made"]
    assert host.make(repo).is_dir()


def test_a_repository_that_was_set_aside_gets_no_spare(host: Host) -> None:
    repo = host.repository("one")
    host.journal.repositories.quarantine(
        str(repo / ".git"), repo=str(repo), job_id="j", why=("core.fsmonitor",)
    )
    host.keeper().tend()
    assert (host.spared(), host.folders()) == ([], [])
    assert "spare_not_made" in [what for what, _ in host.said]


def test_a_spare_whose_register_or_folder_is_lost_goes(host: Host) -> None:
    host.repository("one")
    host.repository("two")
    host.keeper().tend()
    one, two = host.journal.spares.all()
    host.journal.spares.strike_out(one.name)
    host.shelf.remove(two.name)
    (host.shelf.folder / "unknown").mkdir()
    host.keeper().tend()
    assert host.spared() == ["one", "two"]
    assert not {one.name, two.name, "unknown"} & set(host.folders())


def test_a_keeper_tends_after_each_end_of_a_job_until_its_listener_ends(host: Host) -> None:
    ended = threading.Event()
    keeper = host.keeper()
    thread = threading.Thread(target=keeper.run, args=(ended,))
    thread.start()
    try:
        repo = host.repository("one")
        for _ in range(600):
            if host.spared():
                break
            threading.Event().wait(0.1)
        assert host.spared() == ["one"]
        assert repo.is_dir()
    finally:
        ended.set()
        thread.join(30.0)
    assert not thread.is_alive()


def test_what_fails_in_a_keeper_is_said_and_no_more(host: Host) -> None:
    host.repository("one")
    ended = threading.Event()
    keeper = host.keeper()
    keeper._policy = None
    keeper._guarded(keeper.tend, ended)
    assert [what for what, _ in host.said] == ["spares_failed"]
    ended.set()
    keeper._guarded(keeper.tend, ended)
    assert len(host.said) == 1


_DYING = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {project!r})
from contracts.clock import SystemClock
from runagent.process import system_runner
from runagent.trees.tree_registry import NoTreeRegistry
import tests.worker.test_spares as own

def die():
    os.kill(os.getpid(), signal.SIGKILL)

class Runner:
    def __init__(self, at):
        self.left = at
    def start(self, spec):
        self.left -= 1
        if self.left == 0:
            die()
        return system_runner().start(spec)

class Registry(NoTreeRegistry):
    def __init__(self, at):
        self.at = at
    def plan(self, tree):
        if self.at == "plan":
            die()
    def stands(self, job_id, *, admin_dir, identity):
        if self.at == "stands":
            die()

class Shelf(own.SpareShelf):
    at = ""
    def discard(self, spare):
        if self.at == "discard":
            die()
        super().discard(spare)

host = own.Host(Path({folder!r}))
at = {at!r}
if at.startswith("make"):
    keeper = host.keeper()
    keeper._runner = Runner(int(at[4:]))
    if at == "make0":
        host.journal.spares.stands = lambda spare, size: die()
    keeper.tend()
else:
    host.shelf = Shelf(host.journal.spares, host.shelf.folder)
    host.shelf.at = at
    runner = Runner(int(at[4:]) if at.startswith("take") else -1)
    own.system_runner = lambda: runner
    host.make(Path({repo!r}), trees=Registry(at))
"""


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
@pytest.mark.parametrize(
    "at", ["make1", "make2", "make3", "make0", "take1", "take2", "plan", "stands", "discard"]
)
def test_a_kill_at_any_moment_leaves_a_good_spare_or_what_the_next_start_removes(
    host: Host, at: str
) -> None:
    repo = host.repository("one")
    if not at.startswith("make"):
        host.keeper().tend()
        (repo / "d.txt").write_text("d\n")
        git(repo, "add", "-A")
        git(repo, "commit", "-q", "-m", "second")
    script = _DYING.format(project=str(PROJECT), folder=str(host.folder), at=at, repo=str(repo))
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert host.journal.spares.take(str(repo / ".git"), "another") is None
    host.keeper().tend()
    assert (host.spared(), len(host.folders())) == (["one"], 1)
    number = (host.shelf.folder / host.folders()[0] / "tree").stat().st_ino
    tree = host.make(repo)
    assert tree.stat().st_ino == number
    assert git(tree, "status", "--porcelain", "--ignored") == ""
