"""Git's own directory of a worktree is found by its name, however many others stand beside it."""

from __future__ import annotations

import sys
from pathlib import Path

from runagent.trees.worktree_metadata import find_admin_dir
from tests.support.repositories import git, make_repository

listed: list[str] = []  # an audit hook stays as long as its process: it notes, and no more


def note_listing(event: str, arguments: tuple[object, ...]) -> None:
    if event == "os.listdir":
        listed.append(str(arguments[0]))


sys.addaudithook(note_listing)


def test_a_worktree_is_found_without_a_list_of_the_others(tmp_path: Path) -> None:
    repo, tree = make_repository(tmp_path / "repo"), tmp_path / "trees" / "job"
    git(repo, "worktree", "add", "-q", "-b", "other", str(tmp_path / "trees" / "job2"))
    git(repo, "worktree", "add", "-q", "-b", "mine", str(tree))
    worktrees = repo / ".git" / "worktrees"
    listed.clear()
    assert find_admin_dir(str(repo / ".git"), str(tree)) == str(worktrees / "job")
    assert str(worktrees) not in listed


def test_a_worktree_whose_name_was_taken_is_found_by_where_it_leads(tmp_path: Path) -> None:
    repo, tree = make_repository(tmp_path / "repo"), tmp_path / "trees" / "job"
    git(repo, "worktree", "add", "-q", "-b", "other", str(tmp_path / "elsewhere" / "job"))
    git(repo, "worktree", "add", "-q", "-b", "mine", str(tree))
    worktrees = repo / ".git" / "worktrees"
    assert find_admin_dir(str(repo / ".git"), str(tree)) == str(worktrees / "job1")
    assert find_admin_dir(str(repo / ".git"), str(tmp_path / "nowhere" / "job")) == ""
