"""A worktree that succeeds: what stands there, what is locked, what the owner can do with it."""

from __future__ import annotations

import dataclasses
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from runagent.process import system_runner
from runagent.trees.worktree import remove_worktree, unlock_worktree
from tests.support.repositories import (
    attempt_git,
    git,
    make_repository,
    prepare,
    state_of,
    state_of_checkout,
)
from tests.support.unprivileged import PROJECT

JOB = "0123456789abcdef0123"


def test_a_worktree_stands_beside_the_repository_on_its_own_branch(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    worktree = prepare(repo, tmp_path / "state", job_id=JOB, ticket="T-7")
    tree = Path(worktree.path)
    assert tree == tmp_path / "repo-agents" / JOB
    assert worktree.branch == f"wt/{JOB}/T-7"
    assert (worktree.repo, worktree.common_dir) == (str(repo), str(repo / ".git"))
    assert (worktree.base_ref, worktree.base_commit) == ("master", git(repo, "rev-parse", "HEAD"))
    assert worktree.notes == ()
    assert git(tree, "symbolic-ref", "HEAD") == f"refs/heads/{worktree.branch}"
    assert git(tree, "rev-parse", "HEAD") == worktree.base_commit
    assert (tree / "src" / "app.py").read_text() == "print(1)\n"
    assert git(tree, "status", "--porcelain") == ""


def test_the_branch_tracks_nothing_whatever_the_owner_configured(tmp_path: Path) -> None:
    origin = make_repository(tmp_path / "origin")
    git(tmp_path, "clone", "-q", str(origin), "repo")
    repo = tmp_path / "repo"
    git(repo, "config", "branch.autoSetupMerge", "always")
    worktree = prepare(repo, tmp_path / "state", branch="origin/master")
    assert attempt_git(repo, "config", f"branch.{worktree.branch}.remote").returncode == 1


def test_the_main_checkout_keeps_every_byte(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    (repo / "readme.txt").write_text("the owner is editing\n")
    (repo / "draft").write_text("untracked\n")
    before = state_of_checkout(repo)
    worktree = prepare(repo, tmp_path / "state")
    after = state_of_checkout(repo)
    new = {name for name in after if name not in before}
    assert {name: after[name] for name in before} == before
    allowed = (".git/worktrees", ".git/refs/heads/wt", ".git/logs/refs/heads/wt")
    assert all(name.startswith(allowed) for name in new)
    remove_worktree(worktree)
    assert state_of_checkout(repo).keys() - before.keys() <= {".git/logs/refs/heads/wt"}


def test_the_worktree_is_locked_while_it_runs_and_free_afterwards(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    worktree = prepare(repo, tmp_path / "state", job_id=JOB)
    held = attempt_git(repo, "worktree", "remove", worktree.path)
    assert held.returncode != 0
    assert JOB in os.fsdecode(held.stderr), "git names the job that holds it"
    unlock_worktree(worktree)
    unlock_worktree(worktree)
    git(repo, "worktree", "remove", worktree.path)
    assert not Path(worktree.path).exists()


def test_a_base_other_than_the_checked_out_branch_is_cut_from(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    git(repo, "checkout", "-q", "-b", "release")
    (repo / "readme.txt").write_text("release\n")
    git(repo, "commit", "-q", "-am", "release")
    git(repo, "checkout", "-q", "master")
    worktree = prepare(repo, tmp_path / "state", branch="release")
    assert (Path(worktree.path) / "readme.txt").read_text() == "release\n"
    assert worktree.base_ref == "release"


def test_a_base_that_is_checked_out_elsewhere_is_no_obstacle(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    control = attempt_git(repo, "worktree", "add", str(tmp_path / "x"), "master")
    assert control.returncode != 0, "plain git refuses to check one branch out twice"
    assert prepare(repo, tmp_path / "state", branch="master").base_ref == "master"


def test_a_path_with_spaces_and_accents_works(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "Möin dépôt 'x' $(y)")
    worktree = prepare(repo, tmp_path / "état des lieux")
    assert git(Path(worktree.path), "status", "--porcelain") == ""


def test_from_a_linked_worktree_the_new_one_stands_beside_the_main_one(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", str(tmp_path / "elsewhere" / "linked"))
    worktree = prepare(tmp_path / "elsewhere" / "linked", tmp_path / "state")
    assert worktree.repo == str(repo)
    assert worktree.path.startswith(str(tmp_path / "repo-agents"))


def test_no_hook_and_no_filter_of_the_repository_is_run(tmp_path: Path) -> None:
    fired = tmp_path / "fired"
    repo = make_repository(
        tmp_path / "repo", {".gitattributes": "*.txt filter=evil\n", "a.txt": "stored\n"}
    )
    script = f'#!/bin/sh\necho "$0" >> "{fired}"\ncat\nexit 1\n'
    hooks = repo / ".git" / "hooks"
    for name in ("post-checkout", "reference-transaction", "post-index-change", "fsmonitor"):
        (hooks / name).write_text(script)
        (hooks / name).chmod(0o755)
    git(repo, "config", "filter.evil.smudge", str(hooks / "fsmonitor"))
    git(repo, "config", "core.fsmonitor", str(hooks / "fsmonitor"))
    control = attempt_git(repo, "worktree", "add", str(tmp_path / "control"), "-b", "control")
    assert control.returncode != 0, "a failing hook makes plain git fail"
    assert fired.exists()
    fired.unlink()
    worktree = prepare(repo, tmp_path / "state")
    assert not fired.exists()
    assert (Path(worktree.path) / "a.txt").read_text() == "stored\n"
    assert [note.code for note in worktree.notes] == ["filter_not_run"]


def test_files_of_large_file_storage_are_named_as_pointers(tmp_path: Path) -> None:
    repo = make_repository(
        tmp_path / "repo",
        {"art/.gitattributes": "*.png filter=lfs\n", "art/a.png": "version ...\n", "b.png": "x"},
    )
    (note,) = prepare(repo, tmp_path / "state").notes
    assert note.code == "lfs_pointers"
    assert "art/a.png" in note.message
    assert "b.png" not in note.message.replace("art/a.png", "")


def test_attributes_that_match_no_file_are_not_noted(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo", {".gitattributes": "*.png filter=lfs\n", "a": "x"})
    assert prepare(repo, tmp_path / "state").notes == ()


def test_submodules_are_named_as_empty(tmp_path: Path) -> None:
    library = make_repository(tmp_path / "library")
    repo = make_repository(tmp_path / "repo")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib")
    git(repo, "commit", "-q", "-m", "with a submodule")
    worktree = prepare(repo, tmp_path / "state")
    assert [note.code for note in worktree.notes] == ["submodules_empty"]
    assert "lib" in worktree.notes[0].message
    assert list((Path(worktree.path) / "lib").iterdir()) == []


def test_a_shallow_clone_works(tmp_path: Path) -> None:
    origin = make_repository(tmp_path / "origin")
    git(origin, "commit", "-q", "--allow-empty", "-m", "second")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{origin}", "repo")
    worktree = prepare(tmp_path / "repo", tmp_path / "state")
    assert (Path(worktree.path) / "readme.txt").exists()
    assert worktree.notes == ()


def test_a_clone_that_borrows_its_objects_works(tmp_path: Path) -> None:
    origin = make_repository(tmp_path / "origin")
    git(tmp_path, "clone", "-q", "--shared", str(origin), "middle")
    git(tmp_path, "clone", "-q", "--shared", str(tmp_path / "middle"), "repo")
    alternates = tmp_path / "repo" / ".git" / "objects" / "info" / "alternates"
    alternates.write_text("../../../middle/.git/objects\n")
    worktree = prepare(tmp_path / "repo", tmp_path / "state")
    assert (Path(worktree.path) / "readme.txt").exists()


def test_a_sparse_checkout_stays_sparse(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo", {"a/x": "1", "b/y": "2", "top": "3"})
    git(repo, "sparse-checkout", "set", "a")
    tree = Path(prepare(repo, tmp_path / "state").path)
    assert (tree / "a" / "x").exists()
    assert not (tree / "b").exists()
    assert git(tree, "status", "--porcelain") == ""


def test_a_repository_with_sha256_ids_works(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    git(tmp_path, "init", "-q", "-b", "master", "--object-format=sha256", "repo")
    (repo / "a").write_text("x")
    git(repo, "add", "a")
    git(repo, "commit", "-q", "-m", "first")
    worktree = prepare(repo, tmp_path / "state")
    assert len(worktree.base_commit) == 64
    assert git(Path(worktree.path), "status", "--porcelain") == ""


def test_a_checkout_with_carriage_returns_is_clean(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo", {"a.txt": "one\ntwo\n"})
    git(repo, "config", "core.autocrlf", "true")
    tree = Path(prepare(repo, tmp_path / "state").path)
    assert (tree / "a.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert git(tree, "status", "--porcelain") == ""


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o775])
def test_the_folder_is_as_open_as_the_repository_and_never_writable_by_others(
    tmp_path: Path, mode: int
) -> None:
    repo = make_repository(tmp_path / "repo")
    repo.chmod(mode)
    prepare(repo, tmp_path / "state")
    assert stat.S_IMODE((tmp_path / "repo-agents").stat().st_mode) == mode & 0o755
    (shadow,) = (tmp_path / "state").iterdir()
    assert stat.S_IMODE(shadow.stat().st_mode) == 0o700


def test_removal_leaves_nothing_and_follows_no_link(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    before = state_of(repo)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis").write_text("years of work")
    worktree = prepare(repo, tmp_path / "state")
    (Path(worktree.path) / "link").symlink_to(precious)
    closed = Path(worktree.path) / "closed"
    closed.mkdir()
    (closed / "x").write_text("x")
    closed.chmod(0o000)
    remove_worktree(worktree)
    assert (precious / "thesis").read_text() == "years of work"
    assert not (tmp_path / "repo-agents").exists()
    assert not Path(worktree.shadow_dir).exists()
    assert git(repo, "branch", "--list", "wt/*") == ""
    left = state_of(repo).keys() - before.keys()
    assert left <= {".git/fleet-dispatch.lock", ".git/logs/refs/heads/wt"}


def test_removal_keeps_a_branch_that_moved(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    worktree = prepare(repo, tmp_path / "state")
    git(Path(worktree.path), "commit", "-q", "--allow-empty", "-m", "work")
    remove_worktree(worktree)
    assert worktree.branch in git(repo, "branch", "--list", "wt/*")


def test_unlocking_what_is_gone_or_replaced_does_nothing(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    worktree = prepare(repo, tmp_path / "state")
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "locked").write_text("not yours")
    os.rename(worktree.admin_dir, tmp_path / "moved")
    unlock_worktree(worktree)
    os.symlink(victim, worktree.admin_dir)
    unlock_worktree(worktree)
    unlock_worktree(dataclasses.replace(worktree, admin_dir=""))
    assert (victim / "locked").exists()


PREPARE = """
import sys
from runagent.process import system_runner
from runagent.trees.worktree import prepare_worktree
repo, state, job = sys.argv[1:]
print(prepare_worktree(repo, job_id=job, ticket="T-1", branch=None, shadow_dir=f"{state}/{job}",
                       runner=system_runner(), deadline_s=120).path)
"""


def test_twenty_processes_on_one_repository_all_get_a_worktree(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo", {f"d{n}/f{m}": "x" for n in range(10) for m in "abc"})
    before = state_of_checkout(repo)
    (tmp_path / "state").mkdir()
    jobs = [f"{number:020d}" for number in range(20)]
    children = [
        subprocess.Popen(
            [sys.executable, "-c", PREPARE, str(repo), str(tmp_path / "state"), job],
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for job in jobs
    ]
    ended = [(child.communicate(timeout=150), child.returncode) for child in children]
    assert [code for _, code in ended] == [0] * 20, [error for (_, error), _ in ended if error]
    for job in jobs:
        tree = tmp_path / "repo-agents" / job
        assert git(tree, "status", "--porcelain") == ""
        assert git(tree, "symbolic-ref", "HEAD") == f"refs/heads/wt/{job}/T-1"
    after = state_of_checkout(repo)
    assert {name: after[name] for name in before} == before


def test_location_variables_of_an_outer_git_damage_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer = make_repository(tmp_path / "outer")
    repo = make_repository(tmp_path / "repo")
    before = state_of(outer)
    for name, value in (("GIT_DIR", ".git"), ("GIT_INDEX_FILE", ".git/index")):
        monkeypatch.setenv(name, str(outer / value))
    monkeypatch.setenv("GIT_WORK_TREE", str(outer))
    worktree = prepare(repo, tmp_path / "state", runner=system_runner())
    assert worktree.common_dir == str(repo / ".git")
    assert state_of(outer) == before
