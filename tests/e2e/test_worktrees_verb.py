"""The verb `worktrees` at a desk: real runs leave trees, real git sees them come and go."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from contracts.errors import ExitCode
from tests.support.fleet import PROGRAM, git, wait_until
from tests.support.repositories import attempt_git
from tests.support.trees import COMMIT, NOTHING, WRITE, TreeDesk

REFUSED = int(ExitCode.REFUSED)


@pytest.fixture
def desk(tmp_path: Path) -> TreeDesk:
    return TreeDesk(tmp_path)


def _refusal(desk: TreeDesk, *words: str) -> str:
    done = desk.machine.run("worktrees", *words, "--json")
    assert done.returncode == REFUSED, done.stdout + done.stderr
    code: str = json.loads(done.stdout)["error"]["code"]
    return code


# --- what is shown -----------------------------------------------------------------------------
def test_each_tree_is_listed_with_job_ticket_state_size_and_age(desk: TreeDesk) -> None:
    dirty, committed, clean = desk.leave(WRITE), desk.leave(COMMIT), desk.leave(NOTHING)
    rows = {row["jobId"]: row for row in desk.machine.read_json("worktrees", "list")["worktrees"]}
    assert list(rows) == [dirty, committed, clean], "oldest first"
    assert rows[dirty]["states"] == ["awaiting_review", "dirty"]
    assert (rows[dirty]["uncommitted"], rows[dirty]["unpushed"]) == (1, 0)
    assert rows[committed]["states"] == ["awaiting_review", "unpushed"]
    assert (rows[committed]["uncommitted"], rows[committed]["unpushed"]) == (0, 1)
    assert rows[clean]["states"] == ["clean"]
    assert [row["safeToRemove"] for row in rows.values()] == [False, False, True]
    assert all(row["ticket"] == "T-1" and row["bytes"] > 0 for row in rows.values())
    assert all(0 <= row["ageSeconds"] < 3_600 for row in rows.values())
    table = desk.machine.succeed("worktrees", "list").splitlines()
    assert table[0].split() == ["JOB", "TICKET", "STATE", "SIZE", "AGE", "HOLDS", "PATH"]
    assert "awaiting review, dirty" in table[1]


def test_one_tree_is_shown_with_the_files_that_differ(desk: TreeDesk) -> None:
    job = desk.leave(WRITE)
    row = desk.row(job[:8])
    assert (row["jobId"], row["changedFiles"], row["changedTotal"]) == (job, ["new.py"], 1)
    assert row["branch"] == desk.branch(job)
    assert row["baseCommit"] == row["headCommit"] == git(desk.repo, "rev-parse", "HEAD").strip()
    assert "changedFiles" in desk.machine.succeed("worktrees", "show", job)


def test_a_job_that_nobody_knows_is_an_error_that_says_so(desk: TreeDesk) -> None:
    done = desk.machine.run("worktrees", "show", "nosuchjob", "--json")
    assert done.returncode == REFUSED
    assert json.loads(done.stdout)["error"]["problems"][0]["field"] == "JOB"


def test_the_patch_of_a_tree_can_be_applied_to_the_checkout(desk: TreeDesk) -> None:
    job = desk.leave(
        "Path('new.py').write_bytes(b'x\\0\\xff'); Path('README.md').unlink(); finish()"
    )
    patch = subprocess.run(
        [PROGRAM, "worktrees", "diff", job],
        env=desk.machine.environment, cwd=desk.folder, capture_output=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    subprocess.run(["git", "apply"], input=patch, cwd=desk.repo, check=True, timeout=60)
    assert (desk.repo / "new.py").read_bytes() == b"x\0\xff"
    assert not (desk.repo / "README.md").exists()
    assert job in desk.machine.read_json("worktrees", "diff", job)["jobId"]


def test_on_a_terminal_nothing_of_an_agents_text_acts(desk: TreeDesk) -> None:
    act = "Path('new.txt').write_text('a\\x1b]0;owned\\x07b\\x1b[31mred\\n'); finish()"
    job = desk.leave(act)
    main, terminal = pty.openpty()
    done = subprocess.run(
        [PROGRAM, "worktrees", "diff", job],
        env=desk.machine.environment, cwd=desk.folder, stdout=terminal, timeout=60, check=True,
    )  # fmt: skip
    assert done.returncode == 0
    os.close(terminal)
    shown = os.read(main, 65_536)
    os.close(main)
    assert b"new.txt" in shown
    assert b"abred" in shown
    assert b"\x1b" not in shown


# --- K82: work that is nowhere else ------------------------------------------------------------
@pytest.mark.parametrize("act", [WRITE, COMMIT], ids=["uncommitted", "unpushed"])
def test_work_that_is_nowhere_else_is_not_removed_without_force(desk: TreeDesk, act: str) -> None:
    job = desk.leave(act)
    desk.configure("max_age_days = 1\nmax_count = 1\nmax_bytes = 1")
    desk.age(job, 3_000)
    assert _refusal(desk, "remove", job) == "holds_work"
    assert desk.gc()["stayed"][job].startswith("awaiting review and "), "words for people"
    assert desk.row(job)["holds"] in ("1 uncommitted file", "1 commit that no other branch has")
    assert desk.gc("--force")["removed"] == {}
    assert desk.is_whole(job)


def test_work_in_ignored_files_alone_is_work(desk: TreeDesk) -> None:
    (desk.repo / ".gitignore").write_text("*.log\n")
    git(desk.repo, "add", "-A")
    git(desk.repo, "commit", "-q", "-m", "ignore")
    desk.agent("Path('found.log').write_text('the answer\\n'); finish()")
    job = desk.run().result["jobId"]
    desk.age(job, 3_000)
    assert _refusal(desk, "remove", job) == "holds_work"
    assert job in desk.gc()["stayed"]


def test_what_was_merged_has_landed_and_goes_when_it_is_old(desk: TreeDesk) -> None:
    job = desk.leave(COMMIT)
    git(desk.repo, "merge", "-q", desk.branch(job))
    assert desk.row(job)["state"] == "landed"
    assert desk.gc()["removed"] == {}, "it is young"
    desk.age(job, 15)
    assert list(desk.gc("--dry-run")["removed"]) == [job]
    assert desk.is_whole(job), "a dry run removes nothing"
    assert list(desk.gc()["removed"]) == [job]
    assert not desk.path(job).exists()
    assert f"refs/heads/{desk.branch(job)}" not in desk.refs()


def test_uncommitted_work_that_the_owner_took_over_has_landed(desk: TreeDesk) -> None:
    job = desk.leave(WRITE)
    (desk.repo / "new.py").write_text("x = 1\n")
    git(desk.repo, "add", "-A")
    git(desk.repo, "commit", "-q", "-m", "taken over by hand")
    (desk.repo / "later.py").write_text("y = 2\n")
    git(desk.repo, "add", "-A")
    git(desk.repo, "commit", "-q", "-m", "and more")
    row = desk.row(job)
    assert (row["state"], row["landedIn"]) == ("landed", "refs/heads/master")
    assert row["safeToRemove"]
    desk.machine.succeed("worktrees", "remove", job)


def test_commits_that_a_remote_branch_has_are_elsewhere_and_those_of_another_job_are_not(
    desk: TreeDesk,
) -> None:
    job = desk.leave(COMMIT)
    git(desk.repo, "branch", "wt/other", desk.branch(job))
    assert desk.row(job)["unpushed"] == 1
    git(desk.repo, "branch", "-D", "wt/other")
    git(desk.repo, "update-ref", "refs/remotes/origin/topic", desk.branch(job))
    assert desk.row(job)["unpushed"] == 0
    assert desk.row(job)["safeToRemove"]


def test_past_the_age_that_the_owner_set_commits_go_and_uncommitted_work_needs_force(
    desk: TreeDesk,
) -> None:
    committed, dirty = desk.leave(COMMIT), desk.leave(WRITE)
    desk.configure("expire_days = 30")
    for job in (committed, dirty):
        desk.age(job, 31)
    assert list(desk.gc()["removed"]) == [committed]
    assert list(desk.gc("--force")["removed"]) == [dirty]
    for job in (committed, dirty):
        desk.machine.succeed("worktrees", "restore", job)
        assert desk.is_whole(job)


def test_the_number_and_the_size_of_trees_are_bounded_by_what_is_safe_to_go(desk: TreeDesk) -> None:
    dirty, old, new = desk.leave(WRITE), desk.leave(NOTHING), desk.leave(NOTHING)
    desk.age(old, 1)
    desk.configure("max_count = 2")
    assert list(desk.gc()["removed"]) == [old]
    desk.configure("max_bytes = 1")
    assert list(desk.gc()["removed"]) == [new]
    assert desk.is_whole(dirty)


# --- K85: the disk -----------------------------------------------------------------------------
def test_below_the_floor_safe_trees_are_deleted_at_once_and_no_job_starts(desk: TreeDesk) -> None:
    dirty, clean, removed = desk.leave(WRITE), desk.leave(NOTHING), desk.leave(NOTHING)
    desk.machine.succeed("worktrees", "remove", removed)
    desk.configure(f"disk_floor_bytes = {2**53 - 1}")
    refused = desk.run()
    assert (refused.code, refused.codes) == (REFUSED, {"disk_floor"})
    assert sorted(desk.gc()["deleted"]) == sorted([clean, removed])
    assert desk.nothing_is_left(clean)
    assert desk.nothing_is_left(removed)
    assert desk.is_whole(dirty)


# --- K83: in use -------------------------------------------------------------------------------
def test_a_tree_in_which_something_works_stays(desk: TreeDesk) -> None:
    job = desk.leave(NOTHING)
    desk.age(job, 100)
    sleeper = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], cwd=desk.path(job)
    )
    try:
        assert desk.row(job)["state"] == "in_use"
        assert str(sleeper.pid) in desk.row(job)["inUse"]
        unseen = {
            name: desk.row(job)[name] for name in ("changedTotal", "changedFiles", "problems")
        }
        assert unseen == {"changedTotal": 0, "changedFiles": [], "problems": []}, "always there"
        assert _refusal(desk, "remove", job, "--force") == "in_use"
        assert list(desk.gc()["stayed"]) == [job]
    finally:
        sleeper.kill()
        sleeper.wait(30)
    (desk.repo / ".git" / "worktrees" / job / "index.lock").touch()
    assert "index.lock" in desk.row(job)["inUse"]
    (desk.repo / ".git" / "worktrees" / job / "index.lock").unlink()
    assert list(desk.gc()["removed"]) == [job]


def test_a_running_job_keeps_its_tree(desk: TreeDesk) -> None:
    desk.configure("max_age_days = 1\nmax_count = 1\nmax_bytes = 1\nexpire_days = 1")
    desk.machine.sandbox = "none"  # the agent tells us beside its tree that it works
    ready = desk.folder / "ready"
    desk.agent(f"Path({str(ready)!r}).touch(); time.sleep(600)")
    run = subprocess.Popen(
        desk.words(), env=desk.machine.environment, cwd=desk.folder, stdout=subprocess.PIPE
    )
    try:
        wait_until(ready.exists, "the agent works", 60)
        (row,) = desk.machine.read_json("worktrees", "list")["worktrees"]
        job = row["jobId"]
        assert (row["state"], row["safeToRemove"]) == ("running", False)
        desk.age(job, 100)
        assert _refusal(desk, "remove", job, "--force") == "in_use"
        assert list(desk.gc("--force")["stayed"]) == [job]
        assert desk.path(job).is_dir()
    finally:
        run.terminate()
        out, _ = run.communicate(timeout=60)
    assert "interrupted" in {risk["code"] for risk in json.loads(out)["risks"]}


def test_a_tree_that_its_owner_locked_or_keeps_stays(desk: TreeDesk) -> None:
    locked, kept = desk.leave(NOTHING), desk.leave(NOTHING)
    for job in (locked, kept):
        desk.age(job, 100)
    git(desk.repo, "worktree", "lock", str(desk.path(locked)))
    desk.machine.succeed("worktrees", "keep", kept, "--why", "for the demo")
    assert desk.row(locked)["state"] == "locked"
    assert desk.row(kept)["kept"] == "for the demo"
    assert _refusal(desk, "remove", locked, "--force") == "locked"
    assert _refusal(desk, "remove", kept, "--force") == "kept"
    assert sorted(desk.gc()["stayed"]) == sorted([locked, kept])
    git(desk.repo, "worktree", "unlock", str(desk.path(locked)))
    desk.machine.succeed("worktrees", "keep", kept, "--undo")
    assert sorted(desk.gc()["removed"]) == sorted([locked, kept])


# --- restore and the end -----------------------------------------------------------------------
def test_a_removed_tree_comes_back_with_its_branch_and_what_was_staged(desk: TreeDesk) -> None:
    job = desk.leave(COMMIT)
    tree = desk.path(job)
    (tree / "staged.txt").write_text("staged\n")
    git(tree, "add", "staged.txt")
    (tree / "loose.txt").write_text("loose\n")
    before, tip = git(tree, "status", "--porcelain"), git(tree, "rev-parse", "HEAD")
    desk.machine.succeed("worktrees", "remove", job, "--force")
    assert desk.row(job)["state"] == "removed"
    assert not tree.exists()
    git(desk.repo, "gc", "--quiet", "--prune=now")
    git(desk.repo, "worktree", "prune", "--expire=now")
    assert _refusal(desk, "remove", job) == "removed"
    again = desk.machine.run("worktrees", "remove", job).stderr
    assert f"fleet-dispatch worktrees restore {job}" in again
    assert b"loose" in desk.machine.succeed("worktrees", "diff", job).encode()
    desk.machine.succeed("worktrees", "restore", job)
    assert git(tree, "rev-parse", "HEAD") == tip
    assert git(tree, "status", "--porcelain") == before
    assert desk.is_whole(job)
    assert _refusal(desk, "restore", job) == "not_removed"
    assert not any("fleet-dispatch" in ref for ref in desk.refs())


def test_after_the_time_of_grace_a_removed_tree_is_gone_for_good(desk: TreeDesk) -> None:
    job = desk.leave(WRITE)
    desk.machine.succeed("worktrees", "remove", job, "--force")
    assert desk.gc()["deleted"] == {}
    desk.age(job, 8, column="removed_at")
    assert list(desk.gc()["deleted"]) == [job]
    assert desk.nothing_is_left(job)
    assert not (desk.machine.home / "fleet" / "state" / "runs" / job).exists()
    assert _refusal(desk, "restore", job) == "not_removed"


def test_a_tree_does_not_come_back_over_something_else(desk: TreeDesk) -> None:
    job = desk.leave(WRITE)
    desk.machine.succeed("worktrees", "remove", job, "--force")
    desk.path(job).mkdir()
    assert _refusal(desk, "restore", job) == "cannot_restore"
    desk.path(job).rmdir()
    desk.machine.succeed("worktrees", "restore", job)
    assert desk.is_whole(job)


def test_a_tree_that_its_owner_removed_is_said_to_be_so_and_struck_out(desk: TreeDesk) -> None:
    job = desk.leave(NOTHING)
    git(desk.repo, "worktree", "remove", str(desk.path(job)))
    assert desk.row(job)["state"] == "removed_by_owner"
    assert desk.gc()["settled"] == {}, "its branch is still there"
    git(desk.repo, "branch", "-D", desk.branch(job))
    assert list(desk.gc()["settled"]) == [job]
    assert desk.machine.read_json("worktrees", "list")["worktrees"] == []


def test_a_branch_that_the_owner_has_checked_out_stays(desk: TreeDesk) -> None:
    job = desk.leave(NOTHING)
    git(desk.repo, "symbolic-ref", "HEAD", f"refs/heads/{desk.branch(job)}")
    desk.machine.succeed("worktrees", "remove", job)
    assert f"refs/heads/{desk.branch(job)}" in desk.refs()
    assert git(desk.repo, "status", "--porcelain") == ""
    desk.machine.succeed("worktrees", "restore", job)
    assert desk.path(job).is_dir()


def test_a_tree_whose_repository_is_gone_is_an_orphan_and_is_not_collected(desk: TreeDesk) -> None:
    job = desk.leave(NOTHING)
    desk.age(job, 3_000)
    desk.repo.rename(desk.folder / "moved")
    assert desk.row(job)["state"] == "orphaned"
    assert list(desk.gc()["stayed"]) == [job]
    assert _refusal(desk, "remove", job) == "holds_work"
    desk.machine.succeed("worktrees", "remove", job, "--force")
    assert not desk.path(job).exists()
    desk.machine.succeed("worktrees", "restore", job)
    assert desk.path(job).is_dir()


def test_plain_git_can_still_remove_what_a_job_left(desk: TreeDesk) -> None:
    job = desk.leave(NOTHING)
    assert attempt_git(desk.repo, "worktree", "remove", str(desk.path(job))).returncode == 0


def test_each_verb_has_help_with_an_example(desk: TreeDesk) -> None:
    for verb in ("list", "show", "diff", "keep", "remove", "restore", "gc"):
        assert f"fleet-dispatch worktrees {verb}" in desk.machine.succeed("worktrees", verb, "-h")


def test_people_read_what_was_done_and_why_the_rest_stays(desk: TreeDesk) -> None:
    dirty, clean = desk.leave(WRITE), desk.leave(NOTHING)
    desk.age(clean, 15)
    would = desk.machine.succeed("worktrees", "gc", "--dry-run")
    assert "nothing was changed" in would
    said = desk.machine.succeed("worktrees", "gc")
    assert f"{clean}  removed" in said
    assert f"{dirty}  stays" in said
    assert "restored at" in desk.machine.succeed("worktrees", "restore", clean)
    assert "kept" in desk.machine.succeed("worktrees", "keep", clean, "--why", "a demo")
    assert "a demo" in desk.machine.succeed("worktrees", "gc")
    assert "no longer kept" in desk.machine.succeed("worktrees", "keep", clean, "--undo")
    assert "for 7 days" in desk.machine.succeed("worktrees", "remove", clean)
