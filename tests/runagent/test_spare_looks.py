"""The first look at a spare's files is the one that proved it, while that is the truth of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runagent.evidence.evidence import EvidenceCollector
from runagent.evidence.weighing import Evidence
from runagent.files.manifest import ManifestBounds
from runagent.process import system_runner
from runagent.trees.worktree import Worktree
from runagent.trees.worktree_options import WorktreeOptions
from tests.support.repositories import git, make_repository, prepare
from tests.support.spares import OneSpare

_FILES = {"a.txt": "a\n", "src/b.txt": "b\n", ".gitignore": ".env\nout/\n"}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo", _FILES)


def _warm(repo: Path, options: WorktreeOptions | None = None) -> Worktree:
    spares = OneSpare(repo)
    worktree = prepare(repo, repo.parent / "state", spares=spares, options=options)
    assert spares.became(worktree.path)
    return worktree


def _judged(worktree: Worktree, *names: str, bounds: ManifestBounds | None = None) -> Evidence:
    """Let an agent write the files `names` and return what is said of it."""
    collector = EvidenceCollector(worktree, runner=system_runner(), bounds=bounds)
    collector.start()
    for name in names:
        (Path(worktree.path) / name).write_text("by the agent\n")
    collector.after_agent()
    return collector.after_validation()


def test_an_edit_of_a_spare_that_was_proved_is_seen_as_one_of_a_checkout_is(repo: Path) -> None:
    worktree = _warm(repo)
    assert worktree.seen is not None
    evidence = _judged(worktree, "a.txt", "src/new.txt", ".env")
    assert evidence.agent_changed == (b"a.txt", b"src/new.txt")
    assert evidence.ignored_changed == (b".env",)
    assert evidence.risks == ()


def test_an_edit_that_takes_the_time_of_the_file_back_is_seen(repo: Path) -> None:
    worktree = _warm(repo)
    file = Path(worktree.path) / "src" / "b.txt"
    before = file.stat()
    collector = EvidenceCollector(worktree, runner=system_runner())
    collector.start()
    file.write_text("B\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    collector.after_agent()
    assert collector.after_validation().agent_changed == (b"src/b.txt",)


def test_what_somebody_wrote_into_a_spares_file_since_its_proof_is_part_of_the_start(
    repo: Path,
) -> None:
    worktree = _warm(repo)
    (Path(worktree.path) / "a.txt").write_text("between\n")
    evidence = _judged(worktree, "src/b.txt")
    assert evidence.agent_changed == (b"src/b.txt",)


@pytest.mark.parametrize("name", [".env", "out/made.txt"])
def test_a_name_that_came_since_the_proof_is_part_of_the_start(repo: Path, name: str) -> None:
    worktree = _warm(repo)
    file = Path(worktree.path) / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("between\n")
    evidence = _judged(worktree, "a.txt")
    assert evidence.agent_changed == (b"a.txt",)
    assert evidence.ignored_changed == ()


def test_a_file_that_the_host_copied_in_is_part_of_the_start(repo: Path) -> None:
    (repo / ".worktreeinclude").write_text(".env\n")
    (repo / ".env").write_text("TOKEN=x\n")
    worktree = _warm(repo, WorktreeOptions(include=True))
    assert (Path(worktree.path) / ".env").exists()
    evidence = _judged(worktree, "a.txt")
    assert evidence.agent_changed == (b"a.txt",)
    assert evidence.ignored_changed == ()


def test_a_folder_that_went_since_the_proof_has_the_tree_looked_at_anew(repo: Path) -> None:
    worktree = _warm(repo)
    file = Path(worktree.path) / "src" / "b.txt"
    file.unlink()
    file.parent.rmdir()
    assert _judged(worktree, "a.txt").agent_changed == (b"a.txt",)


def test_other_bounds_than_the_proofs_have_the_tree_looked_at_within_them(repo: Path) -> None:
    evidence = _judged(_warm(repo), "a.txt", bounds=ManifestBounds(files_max=2))
    assert "evidence_incomplete" in {risk.code for risk in evidence.risks}


def test_a_spare_that_was_moved_to_another_commit_and_a_checkout_are_looked_at(repo: Path) -> None:
    assert prepare(repo, repo.parent / "cold").seen is None
    spares = OneSpare(repo)
    (repo / "a.txt").write_text("newer\n")
    git(repo, "commit", "-q", "-a", "-m", "second")
    worktree = prepare(repo, repo.parent / "state", spares=spares)
    assert spares.became(worktree.path)
    assert worktree.seen is None
    assert _judged(worktree, "src/b.txt").agent_changed == (b"src/b.txt",)
