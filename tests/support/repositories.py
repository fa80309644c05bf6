"""Real repositories for tests, and the plain git of a person at a desk (the control)."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from contracts.ids import new_job_id
from runagent.evidence.evidence import EvidenceCollector
from runagent.evidence.weighing import Evidence
from runagent.process import ProcessRunner, system_runner
from runagent.trees.spare import NO_SPARES, SpareStore
from runagent.trees.worktree import Worktree, prepare_worktree
from runagent.trees.worktree_options import WorktreeOptions

Act = Callable[[Path], None]

_IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": "2024-01-01T00:00:00+0000",
    "GIT_COMMITTER_DATE": "2024-01-01T00:00:00+0000",
    "GIT_CONFIG_NOSYSTEM": "1",
}


def attempt_git(where: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run plain git in `where`, whatever comes of it."""
    return subprocess.run(
        ["git", *arguments],
        cwd=where,
        env={**os.environ, **_IDENTITY},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )


def git(where: Path, *arguments: str) -> str:
    """Run plain git in `where`; it must work. Return its output without the last line end."""
    done = attempt_git(where, *arguments)
    assert done.returncode == 0, f"git {arguments}: {os.fsdecode(done.stderr)}"
    return os.fsdecode(done.stdout).rstrip("\n")


def make_repository(
    path: Path, files: Mapping[str, str] | None = None, *, branch: str = "master"
) -> Path:
    """Make a repository at `path` with one commit on `branch`."""
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", branch)
    for name, text in (files or {"readme.txt": "hello\n", "src/app.py": "print(1)\n"}).items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    git(path, "add", "-A")
    git(path, "commit", "-q", "-m", "first")
    return path


def prepare(
    repo: Path,
    state: Path,
    *,
    job_id: str | None = None,
    branch: str | None = None,
    ticket: str = "T-1",
    deadline_s: float = 60.0,
    runner: ProcessRunner | None = None,
    spares: SpareStore = NO_SPARES,
    options: WorktreeOptions | None = None,
) -> Worktree:
    """Make a job's worktree of `repo`, its shadow below `state`."""
    job = job_id or new_job_id()
    state.mkdir(parents=True, exist_ok=True)
    return prepare_worktree(
        str(repo),
        job_id=job,
        ticket=ticket,
        branch=branch,
        shadow_dir=str(state / job),
        runner=runner or system_runner(),
        deadline_s=deadline_s,
        spares=spares,
        options=options,
    )


@dataclass
class Run:
    """One run at the evidence level: its worktree, and what the three looks said."""

    worktree: Worktree
    evidence: Evidence

    @property
    def tree(self) -> Path:
        """Return the worktree's folder."""
        return Path(self.worktree.path)

    @property
    def codes(self) -> set[str]:
        """Return the codes of the recorded risks."""
        return {risk.code for risk in self.evidence.risks}


def collect(repo: Path, agent: Act, validator: Act | None = None) -> Run:
    """Let `agent` and then `validator` work in a fresh worktree of `repo`; return the evidence."""
    worktree = prepare(repo, repo.parent / "state")
    collector = EvidenceCollector(worktree, runner=system_runner())
    collector.start()
    agent(Path(worktree.path))
    collector.after_agent()
    if validator is not None:
        validator(Path(worktree.path))
    return Run(worktree, collector.after_validation())


def do_nothing(_tree: Path) -> None:
    """An agent or validator that leaves the tree alone."""


def write(name: str, text: str = "new\n") -> Act:
    """Return an act that writes one file."""

    def act(tree: Path) -> None:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)

    return act


def state_of(folder: Path) -> dict[str, str]:
    """Return name -> kind, mode and content hash of everything below `folder`."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            content = os.readlink(path)
        elif path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            content = "folder"
        found[str(path.relative_to(folder))] = f"{path.lstat().st_mode:o} {content}"
    return found


def state_of_checkout(repo: Path) -> dict[str, str]:
    """Return the state of the main checkout: its files, index and HEAD, and its refs and config."""
    found = state_of(repo)
    ours = (".git/fleet-dispatch.lock",)
    return {name: value for name, value in found.items() if name not in ours}
