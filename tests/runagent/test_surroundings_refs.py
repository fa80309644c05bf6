"""Whose refs moved during a job, and what an owner's own work explains."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from runagent.around.surroundings import Around
from tests.support.repositories import git
from tests.support.scene import Scene, codes, make_scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return make_scene(tmp_path)


def test_a_job_that_keeps_to_its_worktree_changed_nothing_around_it(scene: Scene) -> None:
    def work() -> None:
        scene.commit(scene.tree)
        git(scene.tree, "commit", "-q", "--amend", "-m", "again")
        git(scene.tree, "branch", "kept-by-agent")
        (scene.tree / "loose.txt").write_text("x")

    assert scene.look(work) == Around()


def test_what_an_owner_does_with_git_meanwhile_is_nobodys_drift(scene: Scene) -> None:
    def work() -> None:
        scene.commit(scene.tree)
        scene.commit(scene.repo, "owner.txt")
        scene.commit(scene.repo, "a.txt")
        git(scene.repo, "commit", "-q", "--amend", "-m", "better words")
        git(scene.repo, "push", "-q", "-u", "origin", "master", "--force")
        git(scene.repo, "branch", "new-one")
        git(scene.repo, "tag", "v2")
        git(scene.repo, "branch", "-f", "kept", "master")
        git(scene.repo, "checkout", "-q", "-b", "feature")
        scene.commit(scene.repo, "feature.txt")
        git(scene.repo, "checkout", "-q", "master")
        git(scene.repo, "merge", "-q", "--no-edit", "feature")
        git(scene.repo, "fetch", "-q", "--prune", "origin")
        git(scene.repo, "config", "user.email", "ada@example.org")
        never = ("gc.reflogExpire=never", "gc.reflogExpireUnreachable=never")  # we live in 2024
        git(scene.repo, *(word for name in never for word in ("-c", name)), "gc", "-q")
        (scene.repo / "out").mkdir()
        (scene.repo / "out" / "made.o").write_text("x")
        (scene.repo / "run.log").write_text("x")

    around = scene.look(work)
    assert around.risks == ()
    assert around.planted == ()
    assert {note.code for note in around.notes} == {"checkout_moved"}


def test_a_rebase_and_a_reset_of_the_owner_are_the_owners(scene: Scene) -> None:
    git(scene.repo, "checkout", "-q", "-b", "topic")
    scene.commit(scene.repo, "topic.txt")
    git(scene.repo, "checkout", "-q", "master")

    def work() -> None:
        scene.commit(scene.repo, "more.txt")
        git(scene.repo, "checkout", "-q", "topic")
        git(scene.repo, "rebase", "-q", "master")
        git(scene.repo, "checkout", "-q", "master")
        git(scene.repo, "reset", "-q", "--hard", "HEAD~1")

    assert scene.look(work).risks == ()


def test_other_jobs_commit_come_and_go_meanwhile(scene: Scene) -> None:
    def work() -> None:
        scene.commit(scene.other)
        git(scene.other, "commit", "-q", "--amend", "-m", "again")
        git(scene.repo, "worktree", "add", "-q", "-b", "wt/third/T-1", str(scene.folder / "third"))
        scene.commit(scene.folder / "third")
        git(scene.repo, "worktree", "remove", "--force", str(scene.folder / "third"))
        git(scene.repo, "branch", "-D", "wt/third/T-1")
        git(scene.repo, "worktree", "remove", "--force", str(scene.other))
        git(scene.repo, "branch", "-D", "wt/other/T-9")

    assert scene.look(work) == Around()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("update-ref", "refs/heads/master", "{older}"), "refs/heads/master"),
        (("update-ref", "refs/heads/master", "{foreign}"), "refs/heads/master"),
        (("branch", "-f", "kept", "{older}"), "refs/heads/kept"),
        (("branch", "-D", "kept"), "refs/heads/kept is gone"),
        (("tag", "-d", "v1"), "refs/tags/v1 is gone"),
        (("tag", "-f", "v1", "{foreign}"), "refs/tags/v1 was moved"),
        (("update-ref", "refs/remotes/origin/master", "{own}"), "refs/remotes/origin/master"),
        (("update-ref", "refs/heads/wt/other/T-9", "{own}"), "refs/heads/wt/other/T-9"),
        (("stash", "clear"), "1 stash entry is gone"),
    ],
)
def test_a_ref_that_no_owner_moved_is_told(
    scene: Scene, words: tuple[str, ...], named: str
) -> None:
    older = git(scene.repo, "rev-parse", "master")
    scene.commit(scene.repo, "newer.txt")
    git(scene.repo, "branch", "-f", "kept", "master")
    (scene.repo / "a.txt").write_text("stashed\n")
    git(scene.repo, "stash", "-q")

    def work() -> None:
        own = scene.commit(scene.tree)
        tree = git(scene.tree, "rev-parse", "HEAD^{tree}")
        foreign = git(scene.tree, "commit-tree", "-m", "foreign", "-p", "master", tree)
        known = {"own": own, "older": older, "foreign": foreign}
        git(scene.tree, *(word.format(**known) for word in words))

    around = scene.look(work)
    assert codes(around) == {"ref_moved"}
    assert named in around.risks[0].message
    assert "changed during the job" in around.risks[0].message


def test_a_head_of_the_main_checkout_that_nobody_switched_is_told(scene: Scene) -> None:
    head = scene.repo / ".git" / "HEAD"
    around = scene.look(lambda: head.write_text("ref: refs/heads/kept\n"))
    assert codes(around) == {"ref_moved"}
    assert "HEAD of the main checkout was led to ref: refs/heads/kept" in around.risks[0].message


def test_a_stash_that_is_taken_and_given_back_is_no_loss(scene: Scene) -> None:
    (scene.repo / "a.txt").write_text("stashed\n")
    git(scene.repo, "stash", "-q")

    def work() -> None:
        (scene.tree / "a.txt").write_text("mine\n")
        git(scene.tree, "stash", "-q")
        git(scene.tree, "stash", "pop", "-q")

    assert scene.look(work) == Around()


def test_without_logs_a_branch_may_only_go_forward(scene: Scene) -> None:
    git(scene.repo, "config", "core.logAllRefUpdates", "false")
    shutil.rmtree(scene.repo / ".git" / "logs")
    older = git(scene.repo, "rev-parse", "master")
    newer = scene.commit(scene.repo, "one.txt")
    assert scene.look(lambda: scene.commit(scene.repo, "two.txt")).risks[0].code != "ref_moved"
    assert codes(scene.look(lambda: git(scene.tree, "update-ref", "refs/heads/master", older))) == {
        "ref_moved"
    }
    assert newer


def test_a_log_that_is_no_plain_file_is_no_log(scene: Scene) -> None:
    log = scene.repo / ".git" / "logs" / "HEAD"
    log.unlink()
    os.mkfifo(log)
    assert scene.look(lambda: scene.commit(scene.tree)) == Around()
