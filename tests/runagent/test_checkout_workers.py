"""How many workers write the files of a checkout."""

from __future__ import annotations

import os
from pathlib import Path

from runagent.deadline import Deadline
from runagent.git.repository import admit_repository
from runagent.process import ProcessSpec, RunningProcess, system_runner
from runagent.trees.spare_checkout import make_spare
from runagent.trees.worktree_files import workers_of
from tests.support.repositories import git, make_repository, prepare


class _Workers:
    def __init__(self) -> None:
        self.settings: set[str] = set()

    def start(self, spec: ProcessSpec) -> RunningProcess:
        if "read-tree" in spec.argv:
            self.settings |= {word for word in spec.argv if word.startswith("checkout.workers=")}
        return system_runner().start(spec)


def test_a_job_waits_for_more_workers_than_cores_and_a_spare_takes_one(
    tmp_path: Path,
) -> None:
    repo = make_repository(tmp_path / "repo")
    assert [workers_of(cores) for cores in (1, 2, 4, 6, 8, 64)] == [2, 4, 8, 8, 8, 64]
    cold = _Workers()
    prepare(repo, tmp_path / "cold", runner=cold)
    assert cold.settings == {f"checkout.workers={workers_of(os.cpu_count() or 1)}"}
    ahead = _Workers()
    folder = tmp_path / "shelf"
    folder.mkdir()
    commit = git(repo, "rev-parse", "HEAD")
    make_spare(
        str(folder),
        admit_repository(str(repo)),
        commit,
        runner=ahead,
        deadline=Deadline(60.0),
        max_bytes=1_000_000,
    )
    assert ahead.settings == {"checkout.workers=1"}
