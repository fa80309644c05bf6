"""Worktrees as other people's systems broke them: each run is the real verb or the real host, and
the ways that break plain git are shown to break it first."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from contracts.ids import new_job_id
from contracts.run_agent import RunAgentResult, Status
from runagent.host import run_agent
from tests.support.agents.bench import GOOD, Bench, codes, plan
from tests.support.desk import Desk
from tests.support.fleet import git, make_repository
from tests.support.repositories import attempt_git, state_of_checkout

WRITE = "Path('new.py').write_text('x = 1\\n'); finish('I wrote new.py.')"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk.agent(WRITE)
    return desk


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    plan(bench.bin, "claude", GOOD)
    return bench


def nothing_is_left(repo: Path, *, branches: str = "* master\n") -> bool:
    """Say whether no run has left a tree, a branch or a folder."""
    return (
        git(repo, "branch") == branches
        and git(repo, "worktree", "list").count("\n") == 1
        and not Path(f"{repo}-agents").exists()
    )


# --- hooks -------------------------------------------------------------------------------------
def test_a_failing_checkout_hook_stops_plain_git_and_no_run(desk: Desk, tmp_path: Path) -> None:
    hook = desk.repo / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\necho fired >> {tmp_path}/fired\nexit 1\n")
    hook.chmod(0o755)
    control = attempt_git(desk.repo, "worktree", "add", "-b", "control", str(tmp_path / "control"))
    assert control.returncode == 1
    assert (tmp_path / "control").exists(), "plain git leaves what it says it did not make"
    git(desk.repo, "worktree", "remove", "--force", str(tmp_path / "control"))
    (tmp_path / "fired").unlink()

    done = desk.run("--validate-cmd", "test -f new.py")

    assert (done.code, done.result["status"]) == (0, "completed")
    assert not (tmp_path / "fired").exists()


# --- many at once ------------------------------------------------------------------------------
def test_a_lock_on_the_configuration_stops_plain_git_and_no_run(desk: Desk, tmp_path: Path) -> None:
    git(desk.repo, "config", "branch.autoSetupMerge", "always")
    lock = desk.repo / ".git" / "config.lock"
    lock.touch()
    control = attempt_git(
        desk.repo, "worktree", "add", "-b", "control", str(tmp_path / "control"), "master"
    )
    assert control.returncode != 0
    assert "control" in git(desk.repo, "branch"), "plain git leaves its branch behind"

    assert desk.run().result["status"] == "completed"

    assert lock.exists(), "the lock of somebody else is never removed"


@contextmanager
def pruning(repo: Path) -> Iterator[None]:
    """The owner prunes worktrees again and again meanwhile."""
    over = threading.Event()

    def prune() -> None:
        while not over.is_set():
            attempt_git(repo, "worktree", "prune", "--expire=now")

    thread = threading.Thread(target=prune)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_twenty_runs_at_once_beside_pruning_and_failing_ones_all_succeed(bench: Bench) -> None:
    broken = bench.folder / "broken"
    broken.mkdir()
    (broken / "claude").write_text("#!/no/such/interpreter\n")
    (broken / "claude").chmod(0o755)
    git(
        bench.repo, "config", "branch.autoSetupMerge", "always"
    )  # plain git writes config each time
    breaking = {"environment": {**bench.environment, "PATH": f"{broken}{os.pathsep}/usr/bin:/bin"}}

    def run(number: int) -> RunAgentResult:
        order = bench.order("claude", job_id=new_job_id())
        return run_agent(order, bench.ports(order.job_id, **(breaking if number % 5 == 4 else {})))

    with pruning(bench.repo), ThreadPoolExecutor(max_workers=25) as pool:
        results = list(pool.map(run, range(25)))

    good = [result for number, result in enumerate(results) if number % 5 != 4]
    bad = [result for number, result in enumerate(results) if number % 5 == 4]
    assert [(r.status, r.changed_files) for r in good] == [(Status.COMPLETED, ("src/new.py",))] * 20
    assert {r.status for r in bad} == {Status.FAILED}
    assert {r.worktreePath for r in bad} == {""}
    assert len({r.worktreePath for r in good}) == 20
    assert all((Path(r.worktreePath) / "src/new.py").exists() for r in good)
    assert git(bench.repo, "branch", "--list", "wt/*").count("\n") == 20
    assert git(bench.repo, "worktree", "list").count("\n") == 21


# --- names that are taken ----------------------------------------------------------------------
def test_a_branch_that_is_checked_out_elsewhere_is_refused_naming_the_holder(bench: Bench) -> None:
    job_id = new_job_id()
    holder = bench.folder / "holder"
    git(bench.repo, "worktree", "add", "--quiet", "-b", f"wt/{job_id}/T-1", str(holder))

    result = bench.run(job_id=job_id)

    assert (result.status, codes(result)) == (Status.FAILED, {"branch_in_use"})
    assert str(holder) in result.summary
    assert (bench.calls("claude"), list(holder.glob("src"))) == ([], [])
    assert not Path(f"{bench.repo}-agents").exists()


def occupy_folder(bench: Bench, job_id: str) -> str:
    taken = Path(f"{bench.repo}-agents") / job_id
    taken.mkdir(parents=True)
    (taken / "kept.txt").write_text("somebody's work")
    return "worktree_exists"


def occupy_branch(bench: Bench, job_id: str) -> str:
    git(bench.repo, "branch", f"wt/{job_id}/T-1")
    return "branch_in_use"


def occupy_refs_folder(bench: Bench, job_id: str) -> str:
    git(bench.repo, "branch", f"wt/{job_id}")
    return "branch_conflict"


def lead_folder_elsewhere(bench: Bench, _job_id: str) -> str:
    Path(f"{bench.repo}-agents").symlink_to(bench.repo)
    return "folder_is_link"


def lose_objects(bench: Bench, _job_id: str) -> str:
    blob = git(bench.repo, "rev-parse", "HEAD:README.md").strip()
    (bench.repo / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    return "objects_missing"


@pytest.mark.parametrize(
    "spoil",
    [occupy_folder, occupy_branch, occupy_refs_folder, lead_folder_elsewhere, lose_objects],
)
def test_a_run_that_gets_no_tree_of_its_own_never_works_in_the_main_checkout(
    bench: Bench, spoil: Callable[[Bench, str], str]
) -> None:
    job_id = new_job_id()
    code = spoil(bench, job_id)
    before = state_of_checkout(bench.repo)
    beside = sorted(path.name for path in bench.folder.iterdir())

    result = bench.run(job_id=job_id)

    assert (result.status, codes(result), result.worktreePath) == (Status.FAILED, {code}, "")
    assert bench.calls("claude") == []
    assert state_of_checkout(bench.repo) == before
    assert sorted({path.name for path in bench.folder.iterdir()} - {"state"}) == beside


def test_control_the_same_bench_does_run_when_nothing_is_taken(bench: Bench) -> None:
    result = bench.run(job_id=new_job_id())
    assert (result.status, len(bench.calls("claude"))) == (Status.COMPLETED, 1)


def test_a_branch_where_a_folder_of_branches_must_stand_is_refused_before_a_folder_is_made(
    desk: Desk,
) -> None:
    git(desk.repo, "branch", "wt")
    done = desk.run()
    assert (done.code, done.codes) == (2, {"branch_conflict"})
    assert "a branch named wt exists" in done.result["summary"]
    assert nothing_is_left(desk.repo, branches="* master\n  wt\n")


# --- names that are tricks ---------------------------------------------------------------------
TRICKS = [
    "--orphan",
    "-q",
    "$(touch {0})",
    "`touch {0}`",
    "a;touch {0}",
    "a\x01b",
    "a\nb",
    "..",
    "@{{-1}}",
]


@pytest.mark.parametrize("option", ["--branch", "--ticket"])
@pytest.mark.parametrize("trick", TRICKS)
def test_a_name_that_is_an_option_or_a_command_is_refused_by_the_verb(
    desk: Desk, option: str, trick: str
) -> None:
    word = trick.format(desk.folder / "owned")
    done = desk.run(f"{option}={word}")
    assert (done.code, done.result["status"]) == (2, "failed")
    assert option.strip("-") in done.result["summary"]
    assert not (desk.folder / "owned").exists()
    assert nothing_is_left(desk.repo)


@pytest.mark.parametrize("trick", TRICKS)
def test_a_name_that_is_an_option_or_a_command_is_refused_by_the_host_itself(
    bench: Bench, trick: str
) -> None:
    result = bench.run(branch=trick.format(bench.folder / "owned"))
    assert (result.status, bench.calls("claude")) == (Status.FAILED, [])
    assert "branch" in result.summary
    assert not (bench.folder / "owned").exists()
    assert bench.is_untouched()


# --- where to start ----------------------------------------------------------------------------
def test_a_repository_without_commits_is_a_failed_result_that_says_so(
    desk: Desk, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "--quiet", "--initial-branch=master")
    done = desk.run(repo=empty)
    assert (done.code, done.result["status"], done.codes) == (2, "failed", {"no_commits"})
    assert "no commits" in done.result["summary"]
    assert not Path(f"{empty}-agents").exists()


def test_a_base_that_does_not_resolve_is_refused_and_never_replaced(desk: Desk) -> None:
    done = desk.run("--branch", "release/9")
    assert (done.code, done.codes) == (2, {"base_unknown"})
    assert "release/9" in done.result["summary"]
    assert nothing_is_left(desk.repo)


def test_the_commit_that_was_started_from_stands_in_the_result(desk: Desk, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(desk.repo), str(clone))
    stale = git(clone, "rev-parse", "origin/master").strip()
    (desk.repo / "later.txt").write_text("later\n")
    git(desk.repo, "add", "--all")
    git(desk.repo, "commit", "--quiet", "--message", "later")
    fresh = git(desk.repo, "rev-parse", "master").strip()

    of_the_owner = desk.run()
    of_the_clone = desk.run("--branch", "origin/master", repo=clone)

    assert of_the_owner.result["baseCommit"] == fresh
    assert (desk.tree(of_the_owner) / "later.txt").exists()
    assert of_the_clone.result["baseRef"] == "origin/master"
    assert of_the_clone.result["baseCommit"] == stale != fresh
    assert not (desk.tree(of_the_clone) / "later.txt").exists()


def test_a_path_with_spaces_and_accents_works(desk: Desk, tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "Über träge Öfen" / "l'été (2)", {"a b.txt": "x\n"})
    done = desk.run("--validate-cmd", "test -f new.py", repo=repo)
    assert (done.code, done.result["changed_files"]) == (0, ["new.py"])
    assert done.result["needs_human_review"] is False
    assert done.result["worktreePath"] == f"{repo}-agents/{done.result['jobId']}"


# --- an outer git ------------------------------------------------------------------------------
COMMITTING = (
    "Path('new.py').write_text('x = 1\\n');"
    "subprocess.run(['git', 'add', '-A'], check=True);"
    "subprocess.run(['git', '-c', 'user.name=a', '-c', 'user.email=a@example.invalid',"
    " 'commit', '-qm', 'work'], check=True);"
    "finish('I committed new.py.')"
)


def test_location_variables_of_an_outer_git_reach_neither_host_nor_agent_nor_validator(
    desk: Desk, tmp_path: Path
) -> None:
    outer = make_repository(tmp_path / "outer", {"precious.txt": "mine\n"})
    location = {
        "GIT_DIR": str(outer / ".git"),
        "GIT_WORK_TREE": str(outer),
        "GIT_INDEX_FILE": str(outer / ".git" / "index"),
        "GIT_OBJECT_DIRECTORY": str(outer / ".git" / "objects"),
        "GIT_COMMON_DIR": str(outer / ".git"),
        "GIT_NAMESPACE": "outer",
    }
    agent = desk.agent(COMMITTING)
    before = state_of_checkout(outer)

    done = desk.run("--validate-cmd", "git log -1 --format=%s && git add -A", extra=location)

    assert (done.code, done.result["changed_files"]) == (0, ["new.py"])
    assert done.result["headCommit"] != done.result["baseCommit"]
    assert git(desk.tree(done), "log", "-1", "--format=%s") == "work\n"
    assert state_of_checkout(outer) == before

    # The control: the same agent, started by hand with these variables, damages the outer one.
    elsewhere = make_repository(tmp_path / "elsewhere", {"README.md": "\n"})
    subprocess.run(
        [sys.executable, "-I", str(agent)],
        cwd=elsewhere,
        env={**desk.machine.environment, **location},
        check=False,
        capture_output=True,
        timeout=30,
    )
    assert state_of_checkout(outer) != before
