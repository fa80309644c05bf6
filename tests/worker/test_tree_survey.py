"""A list of worktrees: what git is asked for it, and that each tree is told as it is."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from contracts.clock import SystemClock
from runagent.process import system_runner
from runagent.trees.worktree import Worktree
from tests.support.repositories import git, make_repository, prepare
from worker.journal.journal import Journal
from worker.trees.states import TreeState
from worker.trees.survey import TreeSurvey

_SHIM = """#!/bin/sh
printf '%s\\n' "$*" >> {log}
exec {git} "$@"
"""


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with closing(Journal(tmp_path / "state" / "journal.sqlite3", SystemClock())) as opened:
        yield opened


@pytest.fixture
def trees(tmp_path: Path, journal: Journal) -> list[Worktree]:
    """Five trees of ended jobs on one repository, in the register."""
    repo = make_repository(tmp_path / "app")
    made = [prepare(repo, tmp_path / "state" / "runs") for _ in range(5)]
    with journal._file.writing() as database:
        for number, tree in enumerate(made):
            database.execute(
                "INSERT INTO trees (job, path, repo, common_dir, branch, base_commit, ticket,"
                " made_at, admin_dir, identity) VALUES (?, ?, ?, ?, ?, ?, 'T-1', ?, ?, ?)",
                (
                    *(tree.job_id, tree.path, tree.repo, tree.common_dir, tree.branch),
                    *(tree.base_commit, number + 1, tree.admin_dir),
                    str(os.stat(tree.path).st_ino),
                ),
            )
    return made


def survey(journal: Journal, tmp_path: Path) -> TreeSurvey:
    return TreeSurvey(
        journal, state_dir=tmp_path / "state", runner=system_runner(), processes=lambda: ()
    )


def test_a_list_asks_git_of_a_repository_once_and_of_a_clean_tree_only_what_it_holds(
    journal: Journal, trees: list[Worktree], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, folder = tmp_path / "asked", tmp_path / "bin"
    folder.mkdir()
    shim = folder / "git"
    shim.write_text(_SHIM.format(log=log, git=shutil.which("git")))
    shim.chmod(0o700)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    views = survey(journal, tmp_path).view_all()
    assert [view.state for view in views] == [TreeState.CLEAN] * len(trees)
    asked = Counter(
        word
        for line in log.read_text().splitlines()
        for word in ("config", "for-each-ref", "rev-list", "diff-tree", "status")
        if f" {word} " in f" {line} "
    )
    assert asked == {"config": 1, "for-each-ref": 1, "status": len(trees)}


def test_a_list_tells_each_tree_as_it_is(
    journal: Journal, trees: list[Worktree], tmp_path: Path
) -> None:
    clean, dirty, committed, landed, behind = trees
    (Path(dirty.path) / "new.txt").write_text("x\n")
    for tree, name in ((committed, "a.txt"), (landed, "b.txt")):
        (Path(tree.path) / name).write_text("x\n")
        git(Path(tree.path), "add", "-A")
        git(Path(tree.path), "commit", "-q", "-m", name)
    git(Path(behind.path), "commit", "-q", "--allow-empty", "-m", "nothing in it")
    git(Path(landed.repo), "merge", "-q", "--ff-only", landed.branch)
    views = {view.record.job: view for view in survey(journal, tmp_path).view_all()}
    assert views[clean.job_id].states == (TreeState.CLEAN,)
    assert views[clean.job_id].is_safe
    assert TreeState.DIRTY in views[dirty.job_id].states
    assert TreeState.UNPUSHED in views[committed.job_id].states
    assert TreeState.LANDED in views[landed.job_id].states
    assert TreeState.UNPUSHED in views[behind.job_id].states
    assert [views[t.job_id].is_safe for t in (dirty, committed, landed, behind)] == [
        *(False, False, True, False)
    ]
    # A branch that still holds it may go: nothing is remembered from one list to the next.
    git(Path(landed.repo), "reset", "-q", "--hard", landed.base_commit)
    again = {view.record.job: view for view in survey(journal, tmp_path).view_all()}
    assert not again[landed.job_id].is_safe
