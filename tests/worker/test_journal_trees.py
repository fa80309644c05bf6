"""The register of worktrees: written before a tree is made, kept through every end of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.clock import SystemClock
from contracts.errors import RepositoryRefused, Unavailable
from contracts.ids import new_job_id
from runagent.process import system_runner
from runagent.trees.tree_registry import NoTreeRegistry, PlannedTree, identity_of
from runagent.trees.worktree import prepare_worktree, remove_worktree
from tests.support.repositories import attempt_git, make_repository
from worker.journal.journal import Journal


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "state" / "journal.sqlite3", SystemClock())
    yield journal
    journal.close()


def _prepare(tmp_path: Path, trees: NoTreeRegistry, job: str, branch: str | None = None) -> object:
    return prepare_worktree(
        str(tmp_path / "repo"),
        job_id=job,
        ticket="T-1",
        branch=branch,
        shadow_dir=str(tmp_path / "state" / job),
        runner=system_runner(),
        deadline_s=60,
        trees=trees,
    )


def test_a_worktree_is_registered_with_its_identity_and_its_git_directory(
    tmp_path: Path, journal: Journal
) -> None:
    repo = make_repository(tmp_path / "repo")
    job = new_job_id()
    prepare_worktree(
        str(repo),
        job_id=job,
        ticket="T-7",
        branch=None,
        shadow_dir=str(tmp_path / "state" / job),
        runner=system_runner(),
        deadline_s=60,
        trees=journal.trees,
    )
    record = journal.trees.find(job)
    assert record is not None
    assert (record.path, record.branch) == (f"{repo}-agents/{job}", f"wt/{job}/T-7")
    assert (record.repo, record.common_dir) == (str(repo), str(repo / ".git"))
    assert record.admin_dir == str(repo / ".git" / "worktrees" / job)
    assert record.identity == identity_of(record.path)
    assert (record.ticket, record.kept, record.aside) == ("T-7", "", "")
    assert not record.is_removed
    assert not record.is_half_done
    assert [row.job for row in journal.trees.standing()] == [job]


def test_the_intent_is_on_disk_before_anything_is_made(tmp_path: Path, journal: Journal) -> None:
    repo = make_repository(tmp_path / "repo")
    job = new_job_id()

    class Watching(NoTreeRegistry):
        def plan(self, tree: PlannedTree) -> None:
            journal.trees.plan(tree)
            other = Journal(tmp_path / "state" / "journal.sqlite3", SystemClock())
            assert other.trees.find(job) is not None
            other.close()
            assert not Path(tree.path).exists()
            assert attempt_git(repo, "branch", "--list", "wt/*").stdout == b""
            raise Unavailable("the run dies here")

    with pytest.raises(Unavailable):
        _prepare(tmp_path, Watching(), job)
    record = journal.trees.find(job)
    assert record is not None
    assert (record.admin_dir, record.identity) == ("", "")
    assert not Path(f"{repo}-agents").exists()


def test_a_tree_that_could_not_be_made_is_struck_out(tmp_path: Path, journal: Journal) -> None:
    repo = make_repository(tmp_path / "repo")
    (tmp_path / "repo-agents").symlink_to(tmp_path)
    job = new_job_id()
    with pytest.raises(RepositoryRefused):
        _prepare(tmp_path, journal.trees, job)
    assert journal.trees.find(job) is None
    (tmp_path / "repo-agents").unlink()
    worktree = _prepare(tmp_path, journal.trees, job)
    assert journal.trees.find(job) is not None
    remove_worktree(worktree, journal.trees)  # type: ignore[arg-type]
    assert journal.trees.find(job) is None
    assert not Path(f"{repo}-agents").exists()


def test_each_step_of_a_removal_is_a_state_from_which_one_can_go_on(
    tmp_path: Path, journal: Journal
) -> None:
    trees = journal.trees
    tree = PlannedTree(
        job_id="j" * 20, path="/r-agents/j", repo="/r", common_dir="/r/.git", branch="wt/j/T",
        base_commit="0" * 40, ticket="T",
    )  # fmt: skip

    def state() -> tuple[bool, bool]:
        record = trees.find(tree.job_id)
        assert record is not None
        return record.is_half_done, record.is_removed

    trees.plan(tree)
    assert trees.hold(tree.job_id) is None
    trees.leave(tree.job_id)
    trees.begin_removal(tree.job_id, aside="/r-agents/.removed/j", head_commit="1" * 40, why="old")
    assert state() == (True, False)
    trees.end_removal(tree.job_id)
    assert state() == (False, True)
    trees.begin_restoration(tree.job_id)
    assert state() == (True, False)
    trees.end_restoration(tree.job_id)
    assert state() == (False, False)
    trees.keep(tree.job_id, "a demo")
    record = trees.find(tree.job_id)
    assert record is not None
    assert record.kept == "a demo"
    trees.begin_removal(tree.job_id, aside="/r-agents/.removed/j", head_commit="1" * 40, why="old")
    trees.end_removal(tree.job_id)
    trees.begin_deletion(tree.job_id)
    assert state() == (True, False)
    assert [row.job for row in trees.standing()] == [tree.job_id]
    trees.end_deletion(tree.job_id)
    assert state() == (False, False)
    assert trees.standing() == []
    assert trees.forget_gone(before=0) == 0
    assert trees.forget_gone(before=SystemClock().wall() + 1) == 1
    assert trees.find(tree.job_id) is None
