"""How long what was proved of a tree holds: for one boot."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runagent.deadline import Deadline
from runagent.files import tree_proof
from runagent.files.tree_proof import proof_of
from tests.support.repositories import make_repository, prepare
from tests.support.spares import OneSpare


def test_a_spare_of_an_earlier_boot_is_dropped_for_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout is not flushed: after a power cut some disks have a file's times and no bytes."""
    repo = make_repository(tmp_path / "repo", {"a.txt": "a\n"})
    spares = OneSpare(repo)
    (tmp_path / "boot").write_text("another one\n")
    monkeypatch.setattr(tree_proof, "_BOOT", str(tmp_path / "boot"), raising=False)
    with (spares.tree / "a.txt").open() as held:  # so that its number is nobody else's
        worktree = prepare(repo, tmp_path / "state", spares=spares)
        assert not os.path.samestat(os.fstat(held.fileno()), os.stat(f"{worktree.path}/a.txt"))
    assert not Path(spares.spare.folder).exists()
    assert Path(worktree.path, "a.txt").read_text() == "a\n"


def test_a_system_without_a_name_for_its_boot_proves_trees_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_proof, "_BOOT", str(tmp_path / "nowhere"), raising=False)
    (tmp_path / "tree").mkdir()
    proof = proof_of(str(tmp_path / "tree"), Deadline(60.0))
    assert proof
    assert proof == proof_of(str(tmp_path / "tree"), Deadline(60.0))
