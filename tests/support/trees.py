"""Worktrees that jobs left at a desk: made by real runs, aged in the journal, seen by the verb."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from tests.support.desk import Desk
from tests.support.fleet import git

WRITE = "Path('new.py').write_text('x = 1\\n'); finish('I wrote new.py.')"
COMMIT = """
Path('new.py').write_text('x = 1\\n')
who = ['-c', 'user.name=A', '-c', 'user.email=a@example.invalid']
subprocess.run(['git', 'add', '-A'], check=True)
subprocess.run(['git', *who, 'commit', '-q', '-m', 'work'], check=True)
finish('I committed new.py.')
"""
NOTHING = "finish('There was nothing to do.')"


class TreeDesk(Desk):
    """A desk with the worktrees that its runs left."""

    def leave(self, act: str = WRITE, *words: str) -> str:
        """Run an agent that does `act`; return the job whose worktree it left."""
        self.agent(act)
        done = self.run(*words)
        assert done.result["status"] == "completed", done.stderr + done.stdout
        job: str = done.result["jobId"]
        return job

    def path(self, job: str) -> Path:
        """Return the folder of a job's worktree."""
        return Path(f"{self.repo}-agents") / job

    def branch(self, job: str) -> str:
        """Return the branch of a job."""
        return f"wt/{job}/T-1"

    def configure(self, text: str) -> None:
        """Write the section [worktrees] of the settings, and what else `text` holds."""
        home = self.machine.home / "fleet"
        home.mkdir(mode=0o700, exist_ok=True)
        (home / "config.toml").write_text(f"[worktrees]\n{text}\n")

    def age(self, job: str, days: float, *, column: str = "made_at") -> None:
        """Make a tree as much older as `days` are, in the register."""
        journal = self.machine.home / "fleet" / "state" / "journal.sqlite3"
        with sqlite3.connect(journal) as database:
            database.execute(
                f"UPDATE trees SET {column} = {column} - ? WHERE job = ?", (days * 86_400, job)
            )
        database.close()

    def row(self, job: str) -> dict[str, Any]:
        """Return what the verb shows of a tree."""
        shown: dict[str, Any] = self.machine.read_json("worktrees", "show", job)
        return shown

    def gc(self, *words: str) -> dict[str, dict[str, str]]:
        """Collect; return what was done: group -> job -> why."""
        done = self.machine.read_json("worktrees", "gc", *words)
        return {
            name: {item["jobId"]: item["why"] for item in group}
            for name, group in done.items()
            if isinstance(group, list)
        }

    def refs(self) -> set[str]:
        """Return the names of every ref of the repository."""
        return set(git(self.repo, "for-each-ref", "--format=%(refname)").split())

    def is_whole(self, job: str) -> bool:
        """Say whether a tree stands as its run left it: folder, branch, and known to git."""
        tree = self.path(job)
        return (
            (tree / "new.py").read_text() == "x = 1\n"
            and git(tree, "symbolic-ref", "HEAD").strip() == f"refs/heads/{self.branch(job)}"
            and f"refs/heads/{self.branch(job)}" in self.refs()
            and str(tree) in git(self.repo, "worktree", "list")
        )

    def nothing_is_left(self, job: str) -> bool:
        """Say whether no folder, branch, held commit or git directory of a job is left."""
        return (
            not self.path(job).exists()
            and not (self.path(job).parent / ".removed" / job).exists()
            and not any(job in ref for ref in self.refs())
            and job not in git(self.repo, "worktree", "list")
            and not (self.repo / ".git" / "fleet-dispatch-removed" / job).exists()
            and not (self.repo / ".git" / "worktrees" / job).exists()
        )
