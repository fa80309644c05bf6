"""A spare tree at hand: made as a host makes one, lent once, and what became of it."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

from runagent.deadline import Deadline
from runagent.git.repository import admit_repository
from runagent.process import system_runner
from runagent.trees.spare import Spare
from runagent.trees.spare_checkout import make_spare
from tests.support.repositories import git

_ENOUGH = 10**9


class OneSpare:
    """A store with one spare of `repo`, on a shelf of its own (default: beside the repository)."""

    def __init__(self, repo: Path, *, shelf: Path | None = None, max_bytes: int = _ENOUGH) -> None:
        folder = (shelf or repo.parent / "spares") / "one"
        folder.mkdir(parents=True, mode=0o700)
        self.spare: Spare = make_spare(
            str(folder),
            admit_repository(str(repo)),
            git(repo, "rev-parse", "HEAD"),
            runner=system_runner(),
            deadline=Deadline(60.0),
            max_bytes=max_bytes,
        )
        self.number = os.lstat(self.spare.tree).st_ino
        self.takers: list[str] = []
        self.discarded = 0

    @property
    def tree(self) -> Path:
        """Return the folder of its files."""
        return Path(self.spare.tree)

    def take(self, common_dir: str, job_id: str) -> Spare | None:
        """See SpareStore.take."""
        self.takers.append(job_id)
        is_first = len(self.takers) == 1 and common_dir == self.spare.common_dir
        return self.spare if is_first else None

    def discard(self, spare: Spare) -> None:
        """See SpareStore.discard."""
        self.discarded += 1
        shutil.rmtree(spare.folder)

    def believe(self, proof: str) -> None:
        """Take `proof` for the spare's own: what a host without the check would do."""
        self.spare = dataclasses.replace(self.spare, proof=proof)

    def became(self, tree: str) -> bool:
        """Say whether the folder `tree` is the one that the spare was."""
        return os.lstat(tree).st_ino == self.number
