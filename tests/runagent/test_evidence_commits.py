"""What the agent committed, and where it left HEAD, read from files alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runagent.git.head import read_head
from tests.support.repositories import Run, collect, do_nothing, git, make_repository, write

BRANCH = "wt/0123456789abcdef0123/T-1"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo", {"a.txt": "a\n", "b.txt": "b\n"})


def commit(tree: Path, name: str = "done") -> str:
    write(name)(tree)
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", name)
    return git(tree, "rev-parse", "HEAD")


def test_committed_work_is_reported_though_the_status_is_clean(repo: Path) -> None:
    run = collect(repo, lambda tree: void(commit(tree)))
    assert git(run.tree, "status", "--porcelain") == "", "plain git sees nothing"
    evidence = run.evidence
    assert evidence.changed == evidence.agent_changed == evidence.committed == (b"done",)
    assert evidence.head_commit == git(run.tree, "rev-parse", "HEAD")
    assert evidence.agent_change_survives
    assert evidence.risks == ()


def test_committed_and_open_work_are_reported_together(repo: Path) -> None:
    def agent(tree: Path) -> None:
        commit(tree, "committed")
        write("staged")(tree)
        git(tree, "add", "staged")
        write("open")(tree)

    evidence = collect(repo, agent).evidence
    assert evidence.changed == (b"committed", b"open", b"staged")
    assert evidence.committed == (b"committed",)


def test_without_commits_the_head_is_the_base(repo: Path) -> None:
    run = collect(repo, do_nothing)
    assert run.evidence.head_commit == run.worktree.base_commit
    assert run.evidence.committed == ()
    assert run.evidence.risks == ()


def test_a_head_on_another_branch_is_a_risk_and_its_work_is_reported(repo: Path) -> None:
    def agent(tree: Path) -> None:
        git(tree, "checkout", "-q", "-b", "feature/mine")
        commit(tree)

    run = collect(repo, agent)
    assert run.codes == {"head_moved"}
    assert run.evidence.committed == (b"done",)
    assert run.evidence.head_commit == git(run.tree, "rev-parse", "HEAD")


def test_work_on_the_jobs_branch_is_reported_though_head_went_elsewhere(repo: Path) -> None:
    def agent(tree: Path) -> None:
        commit(tree)
        git(tree, "checkout", "-q", "--detach", "HEAD~1")

    run = collect(repo, agent)
    assert run.codes == {"head_detached"}
    assert run.evidence.committed == run.evidence.changed == (b"done",)
    assert not run.evidence.agent_change_survives, "the tree that is judged does not hold it"


def test_a_packed_branch_is_read(repo: Path) -> None:
    def agent(tree: Path) -> None:
        commit(tree)
        git(tree, "pack-refs", "--all")

    run = collect(repo, agent)
    assert run.evidence.committed == (b"done",)
    assert run.evidence.risks == ()


def test_an_unborn_head_is_a_risk(repo: Path) -> None:
    def agent(tree: Path) -> None:
        git(tree, "checkout", "-q", "--orphan", "fresh")
        write("new")(tree)

    run = collect(repo, agent)
    assert {"head_moved", "head_unborn"} <= run.codes
    assert run.evidence.changed == (b"new",)
    assert run.evidence.head_commit == run.worktree.base_commit, "the job's branch still stands"


def test_a_deleted_branch_is_a_risk(repo: Path) -> None:
    def agent(tree: Path) -> None:
        branch = git(tree, "symbolic-ref", "--short", "HEAD")
        git(tree, "update-ref", "-d", f"refs/heads/{branch}")

    run = collect(repo, agent)
    assert "head_unborn" in run.codes
    assert run.evidence.head_commit == ""


@pytest.mark.parametrize(
    "garbage",
    [
        *(b"", b"\0\0\0", b"deadbeef\n", b"ref: ../../../etc/passwd\n"),
        *(b"ref: refs/heads/../../x\n", b"ref: refs/heads/x@{1}\n"),
        *(b"ref: refs/heads/.x\n", b"ref: refs/heads/a b\n", b"\xff" * 100_000),
    ],
)
def test_a_garbage_head_is_a_risk_and_the_branch_is_believed(repo: Path, garbage: bytes) -> None:
    tips: list[str] = []

    def agent(tree: Path) -> None:
        tips.append(commit(tree))
        head = Path(git(tree, "rev-parse", "--git-path", "HEAD"))
        head.write_bytes(garbage)

    run = collect(repo, agent)
    assert "head_unreadable" in run.codes
    assert run.evidence.head_commit == tips[0]
    assert run.evidence.changed == (b"done",)


def test_a_head_that_names_a_missing_commit_is_a_risk(repo: Path) -> None:
    def agent(tree: Path) -> None:
        write("work")(tree)
        Path(git(tree, "rev-parse", "--git-path", "HEAD")).write_text("1" * 40 + "\n")

    run = collect(repo, agent)
    assert {"head_detached", "evidence_incomplete"} <= run.codes
    assert run.evidence.changed == (b"work",)


def test_a_head_file_that_is_a_pipe_or_a_link_blocks_nothing(repo: Path, tmp_path: Path) -> None:
    def piped(tree: Path) -> None:
        head = Path(git(tree, "rev-parse", "--git-path", "HEAD"))
        head.unlink()
        os.mkfifo(head)

    def linked(tree: Path) -> None:
        head = Path(git(tree, "rev-parse", "--git-path", "HEAD"))
        head.unlink()
        head.symlink_to(repo / ".git" / "HEAD")

    assert "head_unreadable" in collect(repo, linked).codes
    assert "head_unreadable" in collect(repo, piped).codes


def test_a_ring_of_symbolic_refs_ends(tmp_path: Path) -> None:
    common, admin = tmp_path / "common", tmp_path / "admin"
    (common / "refs" / "heads").mkdir(parents=True)
    admin.mkdir()
    (admin / "HEAD").write_text("ref: refs/heads/a\n")
    (common / "refs" / "heads" / "a").write_text("ref: refs/heads/b\n")
    (common / "refs" / "heads" / "b").write_text("ref: refs/heads/a\n")
    head = read_head(str(admin), str(common), BRANCH)
    assert head.commit == ""
    assert head.risks


def test_a_reset_to_an_older_commit_is_reported_as_its_difference(repo: Path) -> None:
    write("second")(repo)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "second")
    run: Run = collect(repo, lambda tree: void(git(tree, "reset", "-q", "--hard", "HEAD~1")))
    assert run.evidence.changed == run.evidence.committed == (b"second",)


def test_a_pointer_file_led_elsewhere_is_tampering_and_hides_nothing(
    repo: Path, tmp_path: Path
) -> None:
    decoy = make_repository(tmp_path / "decoy", {"a.txt": "a\n", "b.txt": "b\n"})

    def agent(tree: Path) -> None:
        write("a.txt", "edited\n")(tree)
        git(decoy, "config", "core.worktree", str(tree))
        (decoy / "a.txt").write_text("edited\n")
        git(tree, f"--git-dir={decoy / '.git'}", f"--work-tree={tree}", "add", "-A")
        git(tree, f"--git-dir={decoy / '.git'}", f"--work-tree={tree}", "commit", "-qm", "x")
        (tree / ".git").write_text(f"gitdir: {decoy / '.git'}\n")

    run = collect(repo, agent)
    assert git(run.tree, "status", "--porcelain") == "", "plain git sees nothing"
    assert run.evidence.changed == (b"a.txt",)
    assert run.codes == {"tampered"}


def void(_value: object) -> None:
    """Drop a value."""
