"""What the files say beside git, through the three looks: the union counts, and the files win."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runagent.evidence.evidence import EvidenceCollector
from runagent.files.manifest import ManifestBounds
from runagent.process import system_runner
from tests.support.repositories import (
    Run,
    attempt_git,
    collect,
    git,
    make_repository,
    prepare,
    write,
)
from tests.support.trick import make_tricked_repository


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_tricked_repository(tmp_path / "repo")


def messages(run: Run, code: str) -> list[str]:
    return [risk.message for risk in run.evidence.risks if risk.code == code]


def test_a_change_that_git_does_not_see_survives_and_is_named(repo: Path) -> None:
    def agent(tree: Path) -> None:
        text = (tree / "stamp.txt").read_text()
        (tree / "stamp.txt").write_text(text.replace(text[5:10], "evil!"))

    run = collect(repo, agent)
    assert git(run.tree, "status", "--porcelain") == "", "plain git sees nothing"
    assert run.evidence.changed == run.evidence.agent_changed == (b"stamp.txt",)
    assert run.evidence.agent_change_survives
    assert "stamp.txt" in messages(run, "git_disagrees")[0]


def test_a_hidden_change_by_the_validator_is_the_validators(repo: Path) -> None:
    def validator(tree: Path) -> None:
        text = (tree / "stamp.txt").read_text()
        (tree / "stamp.txt").write_text(text.replace(text[5:10], "evil!"))

    run = collect(repo, write("new.txt"), validator)
    assert run.evidence.agent_changed == (b"new.txt",)
    assert run.evidence.validator_changed == (b"stamp.txt",)
    assert {"git_disagrees", "validator_wrote"} <= run.codes


def test_line_ends_that_git_normalises_are_no_change(tmp_path: Path) -> None:
    files = {"a.txt": "one\ntwo\n", ".gitattributes": "* text=auto\n"}
    repo = make_repository(tmp_path / "repo", files)

    def agent(tree: Path) -> None:
        (tree / "a.txt").write_bytes(b"one\r\ntwo\r\n")

    run = collect(repo, agent)
    assert run.evidence.agent_changed == ()
    assert run.evidence.risks == ()


def test_what_is_ignored_is_listed_apart_and_folders_as_one(repo: Path) -> None:
    def agent(tree: Path) -> None:
        write("a.txt", "edited\n")(tree)
        for number in range(30):
            write(f"out/deep/{number}")(tree)
        write("run.log")(tree)

    run = collect(repo, agent)
    assert run.evidence.agent_changed == (b"a.txt",)
    assert run.evidence.ignored_changed == (b"out/", b"run.log")
    assert run.evidence.risks == ()


def test_rules_of_a_tools_own_cache_are_no_alarm(repo: Path) -> None:
    def agent(tree: Path) -> None:
        write("a.txt", "edited\n")(tree)
        write(".pytest_cache/.gitignore", "*\n")(tree)
        write(".pytest_cache/v/last")(tree)

    run = collect(repo, agent)
    assert run.evidence.agent_changed == (b"a.txt",)
    assert run.evidence.risks == ()


def test_new_rules_that_may_hide_new_files_are_told_with_the_files(repo: Path) -> None:
    def agent(tree: Path) -> None:
        write(".gitignore", "out/\n*.log\nsecret/\n")(tree)
        write("secret/evil")(tree)

    run = collect(repo, agent)
    assert run.evidence.agent_changed == (b".gitignore",)
    assert run.evidence.ignored_changed == (b"secret/",)
    assert "secret/" in messages(run, "ignored_by_new_rules")[0]

    def honest(tree: Path) -> None:
        write(".gitignore", "out/\n*.log\nbuild/\n")(tree)

    assert collect(repo, honest).evidence.risks == ()


def test_a_validator_that_makes_a_folder_of_its_own_is_no_alarm(repo: Path) -> None:
    run = collect(repo, write("new.txt"), write("obj/Debug/out"))
    assert run.evidence.validator_changed == (b"obj/Debug/out",)
    assert run.evidence.risks == ()
    beside = collect(repo, write("new.txt"), write("src/test_new.py"))
    assert "src/test_new.py" in messages(beside, "validator_wrote")[0]
    lock = collect(repo, write("new.txt"), write("b.txt"))
    assert "b.txt" in messages(lock, "validator_wrote")[0]
    many = collect(repo, write("new.txt"), lambda tree: [write(f"f{n}")(tree) for n in range(9)])
    assert "and 4 more" in messages(many, "validator_wrote")[0]


def test_a_filled_submodule_that_is_edited_stands_for_its_files(tmp_path: Path) -> None:
    library = make_repository(tmp_path / "library", {"inner.txt": "x\n"})
    repo = make_repository(tmp_path / "repo")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib")
    git(repo, "commit", "-q", "-m", "with a submodule")
    worktree = prepare(repo, tmp_path / "state")
    tree = Path(worktree.path)
    git(tree, "-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init")
    collector = EvidenceCollector(worktree, runner=system_runner())
    collector.start()
    (tree / "lib" / "inner.txt").write_text("y\n")
    collector.after_agent()
    evidence = collector.after_validation()
    assert evidence.agent_changed == (b"lib",)
    assert "git_disagrees" not in {risk.code for risk in evidence.risks}


def test_a_tree_beyond_the_bounds_is_told_and_git_still_answers(repo: Path, tmp_path: Path) -> None:
    worktree = prepare(repo, tmp_path / "state")
    bounds = ManifestBounds(files_max=4)
    collector = EvidenceCollector(worktree, runner=system_runner(), bounds=bounds)
    collector.start()
    write("new.txt")(Path(worktree.path))
    collector.after_agent()
    evidence = collector.after_validation()
    assert b"new.txt" in evidence.agent_changed
    assert any("more than 4" in risk.message for risk in evidence.risks)


def test_sha256_repositories_are_read_as_well(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "master", "--object-format=sha256")
    (repo / "a.txt").write_text("a\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "first")
    run = collect(repo, lambda tree: os.utime(tree / "a.txt", (1, 1)))
    assert run.evidence.agent_changed == ()
    run = collect(repo, write("a.txt", "b\n"))
    assert run.evidence.agent_changed == (b"a.txt",)
    assert run.evidence.risks == ()


@pytest.mark.linux
@pytest.mark.parametrize("shape", ["bare", "linked"])
def test_a_folder_that_git_takes_for_its_own_fires_in_plain_git_and_is_told(
    tmp_path: Path, shape: str
) -> None:
    """Its files are in the diff; that its config starts a program there is not in plain sight."""
    fired = tmp_path / "fired"
    repo = make_repository(tmp_path / "repo", {"README.md": "x\n"})

    def agent(tree: Path) -> None:
        place = tree / "docs" / "fixture"
        git(tree, "init", "-q", "--bare", str(place))
        git(place, "config", "core.fsmonitor", f"touch {fired}; false")
        git(place, "config", "core.bare", "false")
        git(place, "config", "core.worktree", "..")
        if shape == "linked":
            (place / "refs").rename(tree / "docs" / "refs")
            (place / "objects").rename(tree / "docs" / "objects")
            (place / "commondir").write_text("..\n")
            (place / "config").rename(tree / "docs" / "config")

    run = collect(repo, agent)
    assert not fired.exists()
    told = messages(run, "nested_repository")
    assert [message for message in told if "docs/fixture" in message]
    if shape == "bare":
        attempt_git(run.tree / "docs" / "fixture", "status")
        assert fired.exists()


def test_git_directories_that_stood_there_and_stay_as_they_are_are_no_alarm(tmp_path: Path) -> None:
    fixture = {f"fix/{name}": "x\n" for name in ("HEAD", "refs/a", "objects/a")}
    repo = make_repository(tmp_path / "repo", {"README.md": "x\n", **fixture})
    assert collect(repo, write("new.txt")).evidence.risks == ()


@pytest.mark.linux
def test_a_file_that_runs_as_its_owner_is_told(repo: Path) -> None:
    def agent(tree: Path) -> None:
        (tree / "tool").write_text("#!/bin/sh\n")
        (tree / "tool").chmod(0o4755)

    assert "setuid" in messages(collect(repo, agent), "special_file")[0]
