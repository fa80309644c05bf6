"""What an agent leaves in the git directories that it shares with the owner: told, never obeyed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.support.repositories import attempt_git, collect, git, make_repository, write

PLANTED = "the repository's git settings changed during the job"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("core.fsmonitor", "/tmp/evil"),
        ("core.hooksPath", "/tmp"),
        ("filter.x.clean", "/tmp/evil"),
        ("diff.x.textconv", "/tmp/evil"),
        ("alias.st", "!/tmp/evil"),
        ("include.path", "/tmp/evil"),
        ("core.sshCommand", "/tmp/evil"),
        ("core.worktree", "/tmp"),
    ],
)
def test_a_setting_that_makes_git_run_a_program_is_tampering(
    repo: Path, name: str, value: str
) -> None:
    def agent(tree: Path) -> None:
        write("a.txt")(tree)
        git(tree, "config", name, value)

    run = collect(repo, agent)
    told = [risk.message for risk in run.evidence.risks if risk.code == "tampered"]
    assert len(told) == 1
    assert told[0].startswith(PLANTED)
    assert name.lower() in told[0].lower()
    assert run.evidence.changed == (b"a.txt",)


@pytest.mark.parametrize(
    "file", ["hooks/post-checkout", "info/attributes", "info/exclude", "objects/info/alternates"]
)
def test_a_shared_file_that_git_obeys_is_tampering_when_it_changes(repo: Path, file: str) -> None:
    def agent(tree: Path) -> None:
        write("a.txt")(tree)
        path = repo / ".git" / file
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n")

    run = collect(repo, agent)
    assert any(file in risk.message for risk in run.evidence.risks if risk.code == "tampered")


def test_a_pointer_of_the_worktree_s_own_git_directory_is_tampering_when_it_changes(
    repo: Path,
) -> None:
    def agent(tree: Path) -> None:
        write("a.txt")(tree)
        Path(git(tree, "rev-parse", "--absolute-git-dir"), "commondir").write_text("/tmp\n")

    assert "tampered" in collect(repo, agent).codes


def test_a_replaced_commit_is_tampering(repo: Path) -> None:
    def agent(tree: Path) -> None:
        write("a.txt")(tree)
        git(tree, "add", "-A")
        git(tree, "commit", "-q", "-m", "real")
        git(tree, "replace", "HEAD", "HEAD~1")

    assert "tampered" in collect(repo, agent).codes


@pytest.mark.parametrize("broken", ["[core\n\tfsmonitor", None])
def test_a_config_that_cannot_be_read_any_more_is_tampering(repo: Path, broken: str | None) -> None:
    def agent(tree: Path) -> None:
        write("a.txt")(tree)
        config = repo / ".git" / "config"
        config.unlink()
        if broken is None:
            os.mkfifo(config)
        else:
            config.write_text(broken)

    began = time.monotonic()
    assert "tampered" in collect(repo, agent).codes
    assert time.monotonic() - began < 20


def test_what_owners_do_during_a_job_is_no_tampering(repo: Path) -> None:
    def agent(tree: Path) -> None:
        write("a.txt")(tree)
        git(repo, "config", "branch.master.remote", "origin")
        git(repo, "config", "branch.master.merge", "refs/heads/master")
        git(repo, "config", "remote.origin.url", "https://example.org/a.git")
        git(repo, "config", "user.email", "ada@example.org")
        git(repo, "commit", "-q", "--allow-empty", "-m", "meanwhile")
        git(repo, "branch", "meanwhile")
        git(repo, "pack-refs", "--all")

    assert collect(repo, agent).evidence.risks == ()


@pytest.mark.parametrize("packed", [False, True])
def test_a_branch_of_the_owner_that_the_agent_moved_to_its_commit_is_told(
    repo: Path, packed: bool
) -> None:
    def agent(tree: Path) -> None:
        for name in ("one", "two"):
            write(name)(tree)
            git(tree, "add", "-A")
            git(tree, "commit", "-q", "-m", name)
        git(tree, "update-ref", "refs/heads/master", "HEAD~1")
        if packed:
            git(tree, "pack-refs", "--all")

    run = collect(repo, agent)
    assert attempt_git(repo, "status", "--porcelain").stdout == b"D  one\n", "the owner's checkout"
    told = [risk.message for risk in run.evidence.risks if risk.code == "branch_moved"]
    assert len(told) == 1
    assert "master" in told[0]


def test_commits_on_the_job_s_own_branch_move_no_other(repo: Path) -> None:
    def agent(tree: Path) -> None:
        write("one")(tree)
        git(tree, "add", "-A")
        git(tree, "commit", "-q", "-m", "one")

    assert collect(repo, agent).evidence.risks == ()


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes", "deep/in/.gitignore"])
def test_a_pipe_in_the_place_of_a_rule_file_holds_nobody(repo: Path, name: str) -> None:
    def agent(tree: Path) -> None:
        write("a.txt")(tree)
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(tree / name)

    began = time.monotonic()
    run = collect(repo, agent)
    assert time.monotonic() - began < 20
    assert any(name in risk.message for risk in run.evidence.risks)
    assert run.codes == {"evidence_incomplete", "special_file"}
    assert b"a.txt" in run.evidence.agent_changed, "the files themselves still tell"


def test_an_ignore_file_of_gigabytes_is_not_read(repo: Path) -> None:
    def agent(tree: Path) -> None:
        write("a.txt")(tree)
        with (tree / ".gitignore").open("wb") as file:
            file.truncate(3 * 1024**3)

    run = collect(repo, agent)
    assert run.codes == {"evidence_incomplete"}
    assert ".gitignore" in run.evidence.risks[0].message


def test_ordinary_rule_files_are_no_trap(repo: Path) -> None:
    def agent(tree: Path) -> None:
        write(".gitignore", "*.log\n")(tree)
        write("sub/.gitattributes", "* text\n")(tree)
        (tree / "link").mkdir()
        (tree / "link" / ".gitignore").symlink_to("nowhere")

    run = collect(repo, agent)
    assert run.evidence.risks == ()
    assert run.evidence.changed == (b".gitignore", b"link/.gitignore", b"sub/.gitattributes")


def test_a_validator_that_wrote_all_of_the_agents_files_anew_is_told(repo: Path) -> None:
    wrote_over = collect(repo, write("a.txt", "agent\n"), write("a.txt", "validator\n"))
    assert wrote_over.codes == {"validator_rewrote"}
    assert wrote_over.evidence.changed == wrote_over.evidence.validator_changed == (b"a.txt",)

    def agent(tree: Path) -> None:
        write("a.txt", "agent\n")(tree)
        write("b.txt", "agent\n")(tree)

    in_part = collect(repo, agent, write("a.txt", "validator\n"))
    assert in_part.codes == set()
    assert in_part.evidence.validator_changed == (b"a.txt",)


def test_a_branch_that_the_agent_made_takes_nobodys_place(repo: Path) -> None:
    def agent(tree: Path) -> None:
        write("one")(tree)
        git(tree, "add", "-A")
        git(tree, "commit", "-q", "-m", "one")
        git(tree, "branch", "kept")

    assert collect(repo, agent).evidence.risks == ()
