"""A look that git refuses is said once, and is never an empty answer."""

from __future__ import annotations

from pathlib import Path

from runagent.deadline import Deadline
from runagent.evidence.snapshot import take_snapshot
from runagent.git.shadow_git import ShadowGit
from runagent.process import system_runner
from tests.support.repositories import make_repository, prepare


def test_a_status_that_fails_is_told_in_plain_words(tmp_path: Path) -> None:
    worktree = prepare(make_repository(tmp_path / "repo"), tmp_path / "state")
    Path(worktree.shadow_dir, "HEAD").write_text("1" * 40 + "\n")
    shadow = ShadowGit(worktree.shadow_dir, worktree.path, system_runner())
    snapshot = take_snapshot(shadow, Deadline(60.0), also=(), before=None)
    assert snapshot.is_incomplete
    told = [risk.message for risk in snapshot.problems]
    assert any(line.startswith("changes could not be listed: git status failed") for line in told)
    assert not any(line.count("git status failed") > 1 for line in told)
