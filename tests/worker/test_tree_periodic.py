"""The listener's own collections: at its start, again, sooner on a full disk, and never fatal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contracts.clock import ManualClock, SystemClock
from contracts.errors import Unavailable
from dispatch.config_worktrees import WorktreesSection
from runagent.process import system_runner
from runagent.trees.worktree import prepare_worktree, unlock_worktree
from tests.support.broker import Broker
from tests.support.fleet import wait_until
from tests.support.hosts import Host, make_host, make_sender
from tests.support.repositories import make_repository
from worker.journal.journal import Journal
from worker.journal.trees import TreeRecord
from worker.trees.collector import Collection, TreeCollector
from worker.trees.periodic import PeriodicCollection
from worker.trees.removal import TreeRemover
from worker.trees.survey import TreeSurvey

JOBS = ("a" * 20, "b" * 20, "c" * 20)
FIFTEEN_DAYS_S = 15 * 86_400


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "state" / "journal.sqlite3", SystemClock())
    yield journal
    journal.close()


def leave_clean_tree(journal: Journal, repo: Path, job: str) -> Path:
    """Leave the tree of a job that changed nothing."""
    runs = journal._file.path.parent / "runs" / job
    runs.mkdir(parents=True)
    worktree = prepare_worktree(
        str(repo),
        job_id=job,
        ticket="T-1",
        branch=None,
        shadow_dir=str(runs / "shadow"),
        runner=system_runner(),
        deadline_s=60,
        trees=journal.trees,
    )
    unlock_worktree(worktree)
    journal.trees.leave(job)
    return Path(worktree.path)


def make_collector(
    journal: Journal, clock: ManualClock, free: Callable[[str], int | None] = lambda _: None
) -> TreeCollector:
    state = journal._file.path.parent
    survey = TreeSurvey(journal, state_dir=state, runner=system_runner())
    remover = TreeRemover(journal.trees, runs_dir=state / "runs")
    return TreeCollector(journal.trees, survey, remover, WorktreesSection(), clock, free=free)


def test_a_tree_that_a_person_removed_while_it_was_looked_at_is_not_deleted(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks like one whose owner took the folder away: what stands aside must stay."""
    tree = leave_clean_tree(journal, make_repository(tmp_path / "repo"), JOBS[0])
    collector = make_collector(journal, ManualClock(SystemClock().wall()))
    remover = TreeRemover(journal.trees, runs_dir=tmp_path / "state" / "runs")
    read, reads = journal.trees.standing, list[int]()

    def read_and_be_overtaken() -> list[TreeRecord]:
        records = read()
        reads.append(1)
        if len(reads) == 2:  # the first one is for what a crash left
            with remover.holding(records[0]):
                remover.remove(records[0], "a person removed it")
        return records

    monkeypatch.setattr(journal.trees, "standing", read_and_be_overtaken)
    done = collector.collect()
    assert len(reads) >= 2
    assert done.settled == []
    assert done.problems == [(JOBS[0], "it changed meanwhile (gc looks again)")]
    record = journal.trees.find(JOBS[0])
    assert record is not None
    assert record.is_removed
    with remover.holding(record):
        remover.restore(record)
    assert any(tree.iterdir())


def test_a_listener_collects_what_is_safe_and_old_and_says_so(
    broker: Broker, tmp_path: Path
) -> None:
    repo = make_repository(tmp_path / "repo")
    host: Host = make_host(tmp_path, broker, make_sender(tmp_path / "sender"), repo)
    journal = Journal(host.journal_file, ManualClock(SystemClock().wall() - FIFTEEN_DAYS_S))
    tree = leave_clean_tree(journal, repo, JOBS[0])
    journal.close()
    host.start()
    try:
        wait_until(lambda: f"worktree_removed job={JOBS[0]}" in host.log, "it was collected", 60)
        assert not tree.exists()
    finally:
        assert host.stop() == 0
    (host.fleet_home / "config.toml").write_text("[worktrees]\ngc = false\n")
    journal = Journal(host.journal_file, ManualClock(SystemClock().wall() - FIFTEEN_DAYS_S))
    kept = leave_clean_tree(journal, repo, JOBS[1])
    journal.close()
    host.start()
    try:
        host.run_honest_job()
    finally:
        assert host.stop() == 0
    assert kept.exists()


def test_no_tree_is_looked_at_when_none_could_go(tmp_path: Path, journal: Journal) -> None:
    repo = make_repository(tmp_path / "repo")
    tree = leave_clean_tree(journal, repo, JOBS[0])
    clock = ManualClock(SystemClock().wall())
    looks = tmp_path / "state" / "looks"
    make_collector(journal, clock).collect(thorough=False)
    assert not looks.exists()
    clock.advance(FIFTEEN_DAYS_S)
    done = make_collector(journal, clock).collect(thorough=False)
    assert [job for job, _ in done.removed] == [JOBS[0]]
    assert looks.exists()
    assert not tree.exists()


def test_a_look_that_ends_while_old_ones_are_cleared_is_no_fault(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state" / "looks" / "gone").mkdir(parents=True)
    (tmp_path / "state" / "looks" / "left").mkdir()
    lstat = Path.lstat

    def ended(path: Path) -> object:
        if path.name == "gone":
            raise FileNotFoundError
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", ended)
    survey = TreeSurvey(journal, state_dir=tmp_path / "state", runner=system_runner())
    survey.clear_old_looks(SystemClock().wall() + 1)
    assert [path.name for path in (tmp_path / "state" / "looks").iterdir()] == ["gone"]


def test_a_collection_that_is_told_to_stop_leaves_the_rest(
    tmp_path: Path, journal: Journal
) -> None:
    repo = make_repository(tmp_path / "repo")
    trees = [leave_clean_tree(journal, repo, job) for job in JOBS]
    clock = ManualClock(SystemClock().wall() + FIFTEEN_DAYS_S)
    gone = lambda: sum(not tree.exists() for tree in trees)  # noqa: E731 - the claim of this test
    done = make_collector(journal, clock).collect(stopped=lambda: gone() > 0)
    assert len(done.removed) == gone() == 1
    make_collector(journal, clock).collect(thorough=False, stopped=lambda: True)
    assert gone() == 1


def test_what_was_left_of_killed_looks_is_cleared(tmp_path: Path, journal: Journal) -> None:
    left = tmp_path / "state" / "looks" / "left"
    left.mkdir(parents=True)
    clock = ManualClock(SystemClock().wall())
    make_collector(journal, clock).collect()
    assert left.exists()
    clock.advance(2 * 86_400)
    make_collector(journal, clock).collect()
    assert not left.exists()


class Counting:
    """Stands in for a collector: counts, and fails as it is told."""

    def __init__(self, *, full: bool = False, error: Exception | None = None) -> None:
        self.count = 0
        self.full = full
        self.error = error

    def collect(self, **_given: object) -> Collection:
        self.count += 1
        if self.error is not None:
            raise self.error
        return Collection(settled=[("a", "why")], removed=[("b", "why")], problems=[("c", "no")])

    def is_below_floor(self) -> bool:
        if self.error is not None:
            raise Unavailable("no journal")
        return self.full


class SteppingClock(ManualClock):
    """A clock on which each wait passes at once; it ends the loop after some of them."""

    def __init__(self, waits: int) -> None:
        super().__init__()
        self.waits = waits

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.advance(seconds)
        self.waits -= 1
        if self.waits <= 0:
            event.set()
        return event.is_set()


@pytest.mark.parametrize(
    ("collector", "minutes", "times"),
    [
        (Counting(), 59, 1),
        (Counting(), 61, 2),
        (Counting(full=True), 21, 3),
        (Counting(error=Unavailable("no journal")), 61, 2),
        (Counting(error=ValueError("a mistake")), 61, 2),
    ],
)
def test_it_collects_each_hour_and_sooner_on_a_full_disk_and_goes_on_when_it_fails(
    collector: Counting, minutes: int, times: int
) -> None:
    said: list[str] = []
    periodic = PeriodicCollection(
        collector,  # type: ignore[arg-type]
        SteppingClock(minutes),
        lambda what, **_: said.append(what),
    )
    periodic.run(threading.Event())
    assert collector.count == times
    if collector.error is not None:
        assert said == ["collection_failed"] * times
    else:
        assert said == ["worktree_settled", "worktree_removed", "worktree_problem"] * times
