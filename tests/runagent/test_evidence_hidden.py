"""Work that an agent hides from plain git, by accident or on purpose: it is reported, and no
program of its choice is run by the looking."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from runagent.evidence import nested
from tests.support.repositories import (
    attempt_git,
    collect,
    do_nothing,
    git,
    make_repository,
    write,
)
from tests.support.unprivileged import give_away, open_folder, run_unprivileged


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repository(
        tmp_path / "repo",
        {"a.txt": "a" * 50 + "\n", "b.txt": "b" * 50 + "\n", ".gitignore": "out/\n*.log\n"},
    )


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_an_edit_behind_an_index_flag_is_reported(repo: Path, flag: str) -> None:
    def agent(tree: Path) -> None:
        git(tree, "update-index", flag, "a.txt")
        (tree / "a.txt").write_text("hidden\n")

    run = collect(repo, agent)
    assert git(run.tree, "status", "--porcelain") == "", "plain git sees nothing"
    assert run.evidence.changed == (b"a.txt",)


def test_files_behind_the_shared_exclude_file_are_reported(repo: Path) -> None:
    def agent(tree: Path) -> None:
        (repo / ".git" / "info" / "exclude").write_text("*\n")
        write("hidden")(tree)

    run = collect(repo, agent)
    assert git(run.tree, "status", "--porcelain") == "", "plain git sees nothing"
    assert run.evidence.changed == (b"hidden",)


def test_files_behind_a_setting_that_hides_untracked_ones_are_reported(repo: Path) -> None:
    git(repo, "config", "status.showUntrackedFiles", "no")
    run = collect(repo, write("new/hidden"))
    assert git(run.tree, "status", "--porcelain") == "", "plain git sees nothing"
    assert run.evidence.changed == (b"new/hidden",)


def test_an_edit_of_the_same_size_with_its_time_put_back_is_reported(repo: Path) -> None:
    def agent(tree: Path) -> None:
        before = (tree / "a.txt").stat()
        # This git compares the change of status in whole seconds: wait for the next one.
        while int(time.time()) <= int(before.st_ctime):
            time.sleep(0.01)
        (tree / "a.txt").write_text("x" * 50 + "\n")
        os.utime(tree / "a.txt", ns=(before.st_atime_ns, before.st_mtime_ns))

    assert collect(repo, agent).evidence.changed == (b"a.txt",)


def test_an_edit_of_the_same_size_in_the_same_moment_is_reported(repo: Path) -> None:
    def agent(tree: Path) -> None:
        before = (tree / "a.txt").stat()
        (tree / "a.txt").write_text("x" * 50 + "\n")
        os.utime(tree / "a.txt", ns=(before.st_atime_ns, before.st_mtime_ns))

    assert collect(repo, agent).evidence.changed == (b"a.txt",)


def test_work_that_is_ignored_alone_is_told_from_work(repo: Path) -> None:
    def agent(tree: Path) -> None:
        write("out/build/app")(tree)
        write("run.log")(tree)

    evidence = collect(repo, agent).evidence
    assert evidence.ignored_only
    assert evidence.changed == evidence.agent_changed == ()
    assert not evidence.agent_change_survives
    assert not collect(repo, do_nothing).evidence.ignored_only
    assert not collect(repo, write("real")).evidence.ignored_only


def test_an_ignored_file_that_was_committed_by_force_is_reported(repo: Path) -> None:
    def agent(tree: Path) -> None:
        write("out/app")(tree)
        git(tree, "add", "-f", "out/app")
        git(tree, "commit", "-q", "-m", "forced")

    evidence = collect(repo, agent).evidence
    assert evidence.changed == evidence.committed == (b"out/app",)
    assert evidence.agent_change_survives
    assert not evidence.ignored_only


@pytest.mark.parametrize("with_commit", [True, False])
def test_files_of_a_repository_made_inside_are_listed_one_by_one(
    repo: Path, with_commit: bool
) -> None:
    def agent(tree: Path) -> None:
        write("lib/core/one")(tree)
        write("lib/two.log")(tree)
        write("lib/out/three")(tree)
        (tree / "lib" / "link").symlink_to("core")
        git(tree / "lib", "init", "-q")
        if with_commit:
            git(tree / "lib", "add", "-A")
            git(tree / "lib", "commit", "-q", "-m", "inner")

    run = collect(repo, agent, write("lib/core/by-validator"))
    assert git(run.tree, "status", "--porcelain") == "?? lib/", "plain git shows the folder alone"
    assert run.evidence.agent_changed == (b"lib/core/one", b"lib/link")
    assert run.evidence.validator_changed == (b"lib/core/by-validator",)
    assert "nested_repository" in run.codes
    assert "evidence_incomplete" not in run.codes


def test_a_repository_made_around_tracked_files_hides_no_edit(repo: Path) -> None:
    def agent(tree: Path) -> None:
        write("a.txt")(tree)
        (tree / ".git").unlink()
        git(tree, "init", "-q")
        git(tree, "add", "-A")
        git(tree, "commit", "-q", "-m", "everything")

    run = collect(repo, agent)
    assert git(run.tree, "status", "--porcelain") == "", "plain git sees nothing"
    assert run.evidence.changed == (b"a.txt",)
    assert "tampered" in run.codes


def test_an_empty_repository_made_inside_is_not_silent(repo: Path) -> None:
    def agent(tree: Path) -> None:
        (tree / "shell").mkdir()
        git(tree / "shell", "init", "-q")

    run = collect(repo, agent)
    assert run.evidence.changed == (b"shell/",)
    assert "nested_repository" in run.codes


def test_no_program_named_by_the_agent_is_run_by_the_looking(repo: Path, tmp_path: Path) -> None:
    fired = tmp_path / "fired"
    script = tmp_path / "canary.sh"
    script.write_text(f'#!/bin/sh\necho "$0 $*" >> "{fired}"\ncat\n')
    script.chmod(0o755)

    def arm(folder: Path) -> None:
        for key in (
            "core.fsmonitor",
            "filter.evil.clean",
            "filter.evil.process",
            "diff.evil.textconv",
        ):
            git(folder, "config", key, str(script))
        git(folder, "config", "core.hooksPath", str(tmp_path / "hooks"))
        (folder / ".gitattributes").write_text("* filter=evil diff=evil\n")

    def agent(tree: Path) -> None:
        (tmp_path / "hooks").mkdir()
        for hook in ("post-index-change", "reference-transaction", "pre-commit"):
            (tmp_path / "hooks" / hook).write_bytes(script.read_bytes())
            (tmp_path / "hooks" / hook).chmod(0o755)
        write("inner/file")(tree)
        git(tree / "inner", "init", "-q")
        git(tree / "inner", "add", "-A")
        git(tree / "inner", "commit", "-q", "-m", "inner")
        arm(tree / "inner")
        write("inner/file", "edited\n")(tree)
        arm(tree)
        write("a.txt", "edited\n")(tree)
        fired.unlink(missing_ok=True)

    def validator(_tree: Path) -> None:
        assert not fired.exists()

    run = collect(repo, agent, validator)
    assert not fired.exists()
    assert set(run.evidence.changed) == {
        *(b".gitattributes", b"a.txt", b"inner/.gitattributes", b"inner/file")
    }
    attempt_git(run.tree, "status", "--porcelain")
    assert fired.exists(), "plain git runs it: the canary is alive"


def test_a_filled_submodule_is_reported_without_git_looking_into_it(tmp_path: Path) -> None:
    library = make_repository(tmp_path / "library")
    repo = make_repository(tmp_path / "repo")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib")
    git(repo, "commit", "-q", "-m", "with a submodule")
    assert collect(repo, do_nothing).evidence.changed == ()
    evidence = collect(repo, write("lib/patch")).evidence
    assert evidence.changed == evidence.agent_changed == (b"lib",)
    assert evidence.agent_change_survives


def test_objects_rewritten_in_the_shared_store_hide_no_edit(repo: Path) -> None:
    """The agent makes the base commit's tree look like its own result."""

    def agent(tree: Path) -> None:
        write("a.txt", "edited\n")(tree)
        git(tree, "add", "-A")
        objects = repo / ".git" / "objects"
        old, new = git(tree, "rev-parse", "HEAD^{tree}"), git(tree, "write-tree")
        target = objects / old[:2] / old[2:]
        target.chmod(0o644)
        target.write_bytes((objects / new[:2] / new[2:]).read_bytes())

    run = collect(repo, agent)
    assert b"a.txt" in run.evidence.changed or "evidence_incomplete" in run.codes
    assert run.evidence.agent_changed == (b"a.txt",)


def test_a_large_file_is_reported_without_being_copied(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def agent(tree: Path) -> None:
        with (tree / "huge").open("wb") as file:
            file.truncate(5 * 1024**3)

    def validator(tree: Path) -> None:
        with (tree / "huge").open("r+b") as file:
            file.write(b"x")

    began = time.monotonic()
    run = collect(repo, agent, validator)
    assert time.monotonic() - began < 30
    assert run.evidence.agent_changed == run.evidence.validator_changed == (b"huge",)
    assert run.evidence.agent_change_survives
    shadow = Path(run.worktree.shadow_dir)
    assert sum(file.stat().st_size for file in shadow.rglob("*") if file.is_file()) < 10**6


UNREADABLE = """
import json, sys
from pathlib import Path
from runagent.evidence.evidence import EvidenceCollector
from runagent.process import system_runner
from runagent.trees.worktree import prepare_worktree
repo, state = sys.argv[1:]
tree = prepare_worktree(repo, job_id="0123456789abcdef0123", ticket="T-1", branch=None,
                        shadow_dir=state + "/s", runner=system_runner(), deadline_s=60)
collector = EvidenceCollector(tree, runner=system_runner())
collector.start()
path = Path(tree.path)
(path / "other").write_text("x")
(path / "closed-file").write_text("x")
(path / "closed-file").chmod(0)
(path / "closed").mkdir()
(path / "closed" / "inner").write_text("x")
(path / "closed").chmod(0)
collector.after_agent()
evidence = collector.after_validation()
(path / "closed").chmod(0o755)
print(json.dumps([[name.decode() for name in evidence.agent_changed],
                  sorted({risk.code for risk in evidence.risks}), evidence.agent_change_survives]))
"""


def test_what_cannot_be_read_is_a_risk_and_hides_nothing_else() -> None:
    with open_folder() as folder:
        repo = make_repository(folder / "repo")
        (folder / "state").mkdir()
        give_away(folder)
        said = run_unprivileged(UNREADABLE, str(repo), str(folder / "state"), home=folder)
        assert said == '[["closed-file", "other"], ["evidence_incomplete"], true]\n'


def test_a_nested_repository_beyond_the_bound_is_named_as_incomplete(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nested, "FILES_MAX", 5)

    def agent(tree: Path) -> None:
        (tree / "lib").mkdir()
        git(tree / "lib", "init", "-q")
        for number in range(9):
            write(f"lib/{number}")(tree)

    run = collect(repo, agent)
    assert "evidence_incomplete" in run.codes
    assert len(run.evidence.changed) >= 5


def test_a_nested_repository_whose_files_are_all_ignored_is_not_work(repo: Path) -> None:
    def agent(tree: Path) -> None:
        (tree / "lib").mkdir()
        git(tree / "lib", "init", "-q")
        write("lib/only.log")(tree)

    run = collect(repo, agent)
    assert run.evidence.agent_changed == ()
    assert "nested_repository" in run.codes
