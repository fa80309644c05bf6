"""A patch is made against objects that were hashed, never against what git finds under a name."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from contracts.errors import CouldNotCheck
from runagent.deadline import Deadline
from runagent.evidence.snapshot import take_snapshot
from runagent.git import object_check
from runagent.git.object_check import verify_start
from runagent.git.shadow_git import ShadowGit
from runagent.process import system_runner
from runagent.trees.worktree import Worktree
from tests.support.repositories import attempt_git, git, make_repository, prepare


@pytest.fixture
def worktree(tmp_path: Path) -> Worktree:
    files = {"a.txt": "one\n", "src/b.py": "two\n", "src/lib/c.py": "three\n"}
    return prepare(make_repository(tmp_path / "repo", files), tmp_path / "state")


def rewrite(repo: str, name: str, kind: str, content: bytes) -> None:
    """Put other bytes under an object's name."""
    path = Path(repo, ".git", "objects", name[:2], name[2:])
    path.chmod(0o644)
    path.write_bytes(zlib.compress(f"{kind} {len(content)}\0".encode() + content))


def verify(worktree: Worktree) -> None:
    shadow = ShadowGit(worktree.shadow_dir, worktree.path, system_runner())
    deadline = Deadline(60.0)
    snapshot = take_snapshot(shadow, deadline, also=(), before=None)
    verify_start(shadow, worktree.base_commit, snapshot.tree, deadline)


def test_a_sound_start_is_taken_whatever_was_changed(worktree: Worktree) -> None:
    tree = Path(worktree.path)
    (tree / "a.txt").write_text("changed\n")
    (tree / "src" / "lib" / "c.py").unlink()
    (tree / "new.txt").write_text("new\n")
    verify(worktree)


def test_a_blob_that_was_rewritten_to_hide_a_change_is_found(worktree: Worktree) -> None:
    tree = Path(worktree.path)
    (tree / "a.txt").write_text("evil\n")
    blob = git(tree, "rev-parse", "HEAD:a.txt")
    rewrite(worktree.repo, blob, "blob", b"evil\n")
    shown = attempt_git(tree, "diff", "HEAD", "--", "a.txt").stdout
    assert b"-one" not in shown, "plain git renders a patch against the lie"
    with pytest.raises(CouldNotCheck, match=blob):
        verify(worktree)


def test_a_tree_or_a_commit_that_was_rewritten_is_found(worktree: Worktree) -> None:
    tree = Path(worktree.path)
    (tree / "src" / "b.py").write_text("evil\n")
    folder = git(tree, "rev-parse", "HEAD:src")
    content = attempt_git(tree, "cat-file", "tree", "HEAD:src/lib").stdout
    rewrite(worktree.repo, folder, "tree", content)
    with pytest.raises(CouldNotCheck):
        verify(worktree)


def test_an_object_that_is_missing_is_said(worktree: Worktree) -> None:
    shadow = ShadowGit(worktree.shadow_dir, worktree.path, system_runner())
    with pytest.raises(CouldNotCheck, match="missing"):
        object_check._verify(shadow, [b"1" * 40], Deadline(60.0))


def test_many_objects_are_hashed_in_batches_and_giants_are_refused(
    worktree: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    (Path(worktree.path) / "a.txt").write_text("changed\n")
    (Path(worktree.path) / "src" / "b.py").write_text("changed\n")
    monkeypatch.setattr(object_check, "_BATCH_BYTES", 300)
    verify(worktree)
    monkeypatch.setattr(object_check, "_BATCH_BYTES", 3)
    with pytest.raises(CouldNotCheck, match="too large"):
        verify(worktree)


def test_a_start_without_folders_and_a_tree_without_changes_are_sound(tmp_path: Path) -> None:
    flat = prepare(make_repository(tmp_path / "flat", {"a.txt": "one\n"}), tmp_path / "other")
    verify(flat)
