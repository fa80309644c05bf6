"""Garbage collection: a process killed at each step of a removal, and trees that must never go."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fleet import git
from tests.support.repositories import attempt_git
from tests.support.trees import COMMIT, NOTHING, WRITE, TreeDesk
from tests.support.unprivileged import PROJECT

# The same objects as behind the verb, in a process that ends itself at the step that is named.
_KILLED_AT = """
import os, signal, sys
from contracts.clock import SystemClock
from runagent.process import system_runner
from worker.journal.journal import Journal
from worker.settings import load_host_settings
from worker.trees.desk import open_desk
act, job, killed_at = sys.argv[1:]
def step(name):
    if name == killed_at:
        os.kill(os.getpid(), signal.SIGKILL)
settings, clock = load_host_settings(), SystemClock()
journal = Journal(settings.journal_file, clock)
desk = open_desk(settings, journal, runner=system_runner(), clock=clock, step=step)
record = desk.find(job)
with desk.remover.holding(record):
    getattr(desk.remover, act)(*((record, "a test") if act == "remove" else (record,)))
print("not killed")
"""
_REMOVAL = ("begun", "pinned", "hidden", "moved", "branch_gone")
_RESTORATION = ("begun", "branch_back", "moved_back", "shown", "unpinned")


@pytest.fixture
def desk(tmp_path: Path) -> TreeDesk:
    return TreeDesk(tmp_path)


def _kill(desk: TreeDesk, act: str, job: str, step: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _KILLED_AT, act, job, step],
        env={**desk.machine.environment, "PYTHONPATH": str(PROJECT)},
        cwd=desk.folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr


def test_a_removal_that_was_killed_at_any_step_is_undone_or_ended_by_the_next_collection(
    desk: TreeDesk,
) -> None:
    job = desk.leave(COMMIT)
    (desk.path(job) / "more.txt").write_text("uncommitted\n")
    for step in _REMOVAL:
        _kill(desk, "remove", job, step)
        assert list(desk.gc()["settled"]) == [job], step
        if step in ("begun", "pinned", "hidden"):
            assert desk.row(job)["state"] == "awaiting_review", step
        else:
            assert desk.row(job)["state"] == "removed", step
            assert f"refs/heads/{desk.branch(job)}" not in desk.refs(), step
            git(desk.repo, "gc", "--quiet", "--prune=now")
            desk.machine.succeed("worktrees", "restore", job)
        assert desk.is_whole(job), step
        assert (desk.path(job) / "more.txt").read_text() == "uncommitted\n"
        assert git(desk.path(job), "log", "-1", "--format=%s").strip() == "work", step
        assert not any("fleet-dispatch" in ref for ref in desk.refs()), step


def test_a_restoration_that_was_killed_at_any_step_is_undone_or_ended(desk: TreeDesk) -> None:
    job = desk.leave(COMMIT)
    for step in _RESTORATION:
        desk.machine.succeed("worktrees", "remove", job, "--force")
        _kill(desk, "restore", job, step)
        assert list(desk.gc()["settled"]) == [job], step
        if step in ("begun", "branch_back"):
            assert desk.row(job)["state"] == "removed", step
            assert f"refs/heads/{desk.branch(job)}" not in desk.refs(), step
            desk.machine.succeed("worktrees", "restore", job)
        assert desk.is_whole(job), step


@pytest.mark.parametrize("step", ["deletion_begun", "deleted"])
def test_a_deletion_that_was_killed_is_ended_and_cannot_be_restored(
    desk: TreeDesk, step: str
) -> None:
    job = desk.leave(WRITE)
    desk.machine.succeed("worktrees", "remove", job, "--force")
    _kill(desk, "delete", job, step)
    assert desk.machine.run("worktrees", "restore", job).returncode == 2
    assert list(desk.gc()["settled"]) == [job]
    assert desk.nothing_is_left(job)
    assert desk.gc()["settled"] == {}


@pytest.mark.parametrize("moment", ["planned", "made"])
def test_a_run_that_was_killed_while_its_tree_was_made_leaves_nothing_unknown(
    desk: TreeDesk, moment: str
) -> None:
    script = """
import os, signal, sys
from contracts.clock import SystemClock
from contracts.ids import new_job_id
from runagent.process import system_runner
from runagent.trees.tree_registry import NoTreeRegistry
from runagent.trees.worktree import prepare_worktree
from worker.journal.journal import Journal
from worker.settings import load_host_settings
repo, moment = sys.argv[1:]
journal = Journal(load_host_settings().journal_file, SystemClock())
class Killed(NoTreeRegistry):
    def plan(self, tree):
        journal.trees.plan(tree)
        if moment == "planned":
            os.kill(os.getpid(), signal.SIGKILL)
    def stands(self, job_id, *, admin_dir, identity):
        os.kill(os.getpid(), signal.SIGKILL)
job = new_job_id()
print(job, flush=True)
prepare_worktree(repo, job_id=job, ticket="T-1", branch=None, shadow_dir=repo + "-" + job,
                 runner=system_runner(), deadline_s=60, trees=Killed())
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(desk.repo), moment],
        env={**desk.machine.environment, "PYTHONPATH": str(PROJECT)},
        cwd=desk.folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    job = done.stdout.strip()
    assert list(desk.gc()["settled"]) == [job]
    if moment == "planned":
        assert desk.machine.read_json("worktrees", "list")["worktrees"] == []
        assert desk.nothing_is_left(job)
        return
    row = desk.row(job)
    assert row["path"] == str(desk.path(job))
    assert "locked" not in row["states"], "the lock of its own dead run holds nobody off"
    desk.machine.succeed("worktrees", "remove", job, "--force")
    assert not desk.path(job).exists()


# --- links -------------------------------------------------------------------------------------
def _plant(desk: TreeDesk, job: str) -> Path:
    """Do what an agent can do: put a link to another folder in the place of its own worktree."""
    victim = desk.folder / "victim"
    victim.mkdir()
    (victim / "precious.txt").write_text("precious\n")
    tree = desk.path(job)
    (victim / ".git").write_bytes((tree / ".git").read_bytes())
    tree.rename(desk.folder / "moved-away")
    tree.symlink_to(victim)
    return victim / "precious.txt"


def test_plain_git_follows_a_planted_link_and_empties_another_folder(desk: TreeDesk) -> None:
    job = desk.leave(NOTHING)
    precious = _plant(desk, job)
    attempt_git(desk.repo, "worktree", "remove", "--force", str(desk.path(job)))
    assert not precious.exists(), "this is why git is not asked"


def test_a_link_in_the_place_of_a_tree_is_never_followed(desk: TreeDesk) -> None:
    job = desk.leave(NOTHING)
    precious = _plant(desk, job)
    desk.age(job, 3_000)
    assert desk.row(job)["state"] == "orphaned"
    assert list(desk.gc("--force")["stayed"]) == [job]
    refused = desk.machine.run("worktrees", "remove", job, "--force", "--json")
    assert json.loads(refused.stdout)["error"]["code"] == "replaced"
    assert precious.read_text() == "precious\n"
    assert (desk.folder / "moved-away" / "README.md").exists()


def test_another_folder_in_the_place_of_a_tree_is_not_removed(desk: TreeDesk) -> None:
    job = desk.leave(NOTHING)
    desk.path(job).rename(desk.folder / "moved-away")
    desk.path(job).mkdir()
    (desk.path(job) / "mine.txt").write_text("mine\n")
    desk.age(job, 3_000)
    assert list(desk.gc("--force")["stayed"]) == [job]
    assert (desk.path(job) / "mine.txt").read_text() == "mine\n"


def test_links_inside_a_tree_go_and_what_they_lead_to_stays(desk: TreeDesk) -> None:
    outside = desk.folder / "outside"
    outside.mkdir()
    (outside / "precious.txt").write_text("precious\n")
    job = desk.leave(
        f"os.symlink({str(outside)!r}, 'link'); os.symlink('/', 'root'); os.mkdir('deep');"
        f"os.symlink({str(outside)!r}, 'deep/link'); os.chmod('deep', 0o500); finish()"
    )
    desk.machine.succeed("worktrees", "remove", job, "--force")
    desk.age(job, 8, column="removed_at")
    assert list(desk.gc()["deleted"]) == [job]
    assert desk.nothing_is_left(job)
    assert (outside / "precious.txt").read_text() == "precious\n"


def test_a_link_in_the_place_of_the_folder_of_trees_is_not_followed(desk: TreeDesk) -> None:
    job = desk.leave(NOTHING)
    desk.age(job, 3_000)
    folder = desk.path(job).parent
    elsewhere = desk.folder / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    done = desk.gc()
    assert list(done["problems"]) == [job]
    assert (elsewhere / job / "README.md").exists()
    folder.unlink()
    elsewhere.rename(folder)
    assert list(desk.gc()["removed"]) == [job], "nothing was left half done"


# --- git's own locks, programs -----------------------------------------------------------------
def test_a_stale_lock_of_gits_own_is_waited_for_and_never_broken(desk: TreeDesk) -> None:
    job = desk.leave(NOTHING)
    git(desk.repo, "pack-refs", "--all")
    lock = desk.repo / ".git" / "packed-refs.lock"
    lock.touch()
    done = desk.machine.run("worktrees", "remove", job, "--json")
    assert json.loads(done.stdout)["error"]["kind"] == "unavailable"
    assert lock.exists()
    lock.unlink()
    assert list(desk.gc()["settled"]) == [job]
    assert desk.row(job)["state"] == "removed"
    assert f"refs/heads/{desk.branch(job)}" not in desk.refs()


def test_a_lock_that_was_carried_away_with_a_tree_does_not_come_back_with_it(
    desk: TreeDesk,
) -> None:
    job = desk.leave(WRITE)
    (
        desk.repo / ".git" / "worktrees" / job / "HEAD.lock"
    ).touch()  # as `git gc` has it for a moment
    desk.machine.succeed("worktrees", "remove", job, "--force")
    desk.machine.succeed("worktrees", "restore", job)
    git(desk.path(job), "add", "-A")
    git(desk.path(job), "commit", "-q", "-m", "it is not locked")


def test_no_program_that_an_agent_planted_is_run_by_a_look_or_a_removal(desk: TreeDesk) -> None:
    desk.machine.sandbox = "none"  # in a box git's settings cannot be written at all
    canary, script = desk.folder / "canary", desk.folder / "planted"
    script.write_text(f"#!/bin/sh\ntouch {canary}\ncat\n")
    script.chmod(0o755)
    job = desk.leave(
        "Path('new.py').write_text('x = 1\\n')\n"
        f"script = {str(script)!r}\n"
        "for key in ('core.fsmonitor', 'core.hooksPath', 'filter.f.clean', 'filter.f.smudge',\n"
        "            'diff.d.textconv', 'diff.external', 'core.pager', 'gc.auto'):\n"
        "    subprocess.run(['git', 'config', key, script], check=True)\n"
        "Path('.gitattributes').write_text('* filter=f diff=d\\n')\n"
        "finish()"
    )
    for words in (("list",), ("show", job), ("diff", job), ("gc",), ("remove", job, "--force")):
        desk.machine.succeed("worktrees", *words)
    desk.machine.succeed("worktrees", "restore", job)
    assert not canary.exists()
    attempt_git(desk.path(job), "status")
    assert canary.exists(), "plain git runs it"


def test_a_pipe_that_an_agent_left_for_git_makes_a_tree_unknown_and_it_stays(
    desk: TreeDesk,
) -> None:
    job = desk.leave(
        "Path('.gitignore').unlink(missing_ok=True); os.mkfifo('.gitignore'); finish()"
    )
    desk.age(job, 3_000)
    assert "unknown" in desk.row(job)["states"]
    assert list(desk.gc()["stayed"]) == [job]
    assert os.path.lexists(desk.path(job) / ".gitignore")
