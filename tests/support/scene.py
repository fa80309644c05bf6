"""A repository with a job's worktree and all that lies around it, and one look at it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from contracts.sandbox import Capability
from runagent.around.surroundings import Around, Surroundings
from runagent.around.watched import WatchList
from runagent.process import system_runner
from runagent.sandbox.protocol import GitPlace
from runagent.trees.worktree import Worktree
from tests.support.repositories import git, make_repository, prepare

BOX = frozenset({Capability.WRITES, Capability.GIT, Capability.AGENT_SETTINGS})


@dataclass
class Scene:
    """A repository with a job's worktree, a second worktree, an origin, and a home to watch."""

    folder: Path
    repo: Path
    worktree: Worktree
    other: Path
    home: Path

    @property
    def tree(self) -> Path:
        return Path(self.worktree.path)

    def commit(self, where: Path, name: str = "work.txt") -> str:
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        (where / name).write_text(f"by {where.name}\n")
        git(where, "add", "-A")
        git(where, "commit", "-q", "-m", name)
        return git(where, "rev-parse", "HEAD")

    def look(
        self,
        meanwhile: Callable[[], object],
        *,
        enforces: frozenset[Capability] = frozenset(),
        noted: bool = False,
        again: Callable[[], object] = lambda: None,
    ) -> Around:
        around = Surroundings(
            self.worktree,
            runner=system_runner(),
            git=GitPlace(self.worktree.admin_dir, self.worktree.common_dir),
            enforces=enforces,
            watch_list=WatchList((str(self.home / ".bashrc"), str(self.home / ".ssh")), noted),
            excludes=(str(self.home / "ignore"),),
            deadline_s=60.0,
            pause=again,
        )
        around.start()
        meanwhile()
        return around.after_job()


def make_scene(tmp_path: Path) -> Scene:
    """Make one below an empty folder."""
    files = {"a.txt": "a\n", "src/b.py": "b\n", ".gitignore": "out/\n*.log\n"}
    repo = make_repository(tmp_path / "repo", files)
    git(tmp_path, "init", "-q", "--bare", "origin.git")
    git(repo, "remote", "add", "origin", str(tmp_path / "origin.git"))
    git(repo, "push", "-q", "origin", "master")
    git(repo, "fetch", "-q", "origin")
    git(repo, "branch", "kept")
    git(repo, "tag", "v1")
    git(repo, "worktree", "add", "-q", "-b", "wt/other/T-9", str(tmp_path / "other"))
    home = tmp_path / "home-of-owner"
    (home / ".ssh").mkdir(parents=True)
    (home / ".bashrc").write_text("alias ll='ls -l'\n")
    (home / ".ssh" / "config").write_text("Host *\n")
    return Scene(tmp_path, repo, prepare(repo, tmp_path / "state"), tmp_path / "other", home)


def codes(around: Around) -> set[str]:
    return {risk.code for risk in around.risks}
