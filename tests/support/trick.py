"""What an agent may do so that git, or a host that asks git, sees something else: how it is played.

Each trick is a small shell script that is run in a job's worktree of the repository that
`make_tricked_repository` makes. It says what the host must report. Scripts find in their
environment `REPO` (the main checkout), `ADMIN` (the worktree's own git directory), `OUTSIDE` (an
empty folder elsewhere) and `CANARY` (a program that leaves a mark when it is run, and then passes
on what it is given).
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.repositories import git, make_repository

_SECOND_COMMIT = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_CONFIG_NOSYSTEM": "1",
}
_FILES = {
    "a.txt": "a" * 50 + "\n",
    "b.txt": "b" * 50 + "\n",
    "src/app.py": "print('hello')\n",
    "src/lib/core.py": "CORE = 1\n",
    "stamp.txt": "$Id$\n",
    ".gitignore": "out/\n*.log\n",
    ".gitattributes": "stamp.txt ident\n",
}


@dataclass(frozen=True, kw_only=True)
class Trick:
    """One trick. `changed`: the agent's changed files as the host must report them, exactly.
    `codes`: the risks that must be recorded, `ignored_only` among them. `hides`: plain `git status`
    then shows none of `changed` (of no change: nothing). `fires`: plain `git status` then runs the
    canary. `hangs`: or it never ends."""

    name: str
    does: str
    script: str
    changed: frozenset[bytes] = frozenset()
    codes: frozenset[str] = frozenset()
    hides: bool = False
    fires: bool = False
    hangs: bool = False


def make_tricked_repository(path: Path) -> Path:
    """Make the repository that every trick is played on."""
    return make_repository(path, _FILES)


def play(trick: Trick, tree: Path, *, repo: Path, canary: Path, outside: Path) -> None:
    """Run the trick's script in `tree`; it must work, or the test proves nothing."""
    environment = {
        **os.environ,
        **_SECOND_COMMIT,
        "REPO": str(repo),
        "ADMIN": git(tree, "rev-parse", "--absolute-git-dir"),
        "OUTSIDE": str(outside),
        "CANARY": str(canary),
    }
    done = subprocess.run(
        ["sh", "-eu", "-c", trick.script],
        cwd=tree,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{trick.name}: {os.fsdecode(done.stderr)}"


def make_canary(folder: Path) -> Path:
    """Make a program in `folder` that leaves the file `fired` beside itself when it is run."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "canary"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> "{folder}/fired"\ncat 2>/dev/null\n')
    program.chmod(0o755)
    return program


def has_fired(canary: Path) -> bool:
    """Say whether the canary was run since it was made or since `hush`."""
    return (canary.parent / "fired").exists()


def hush(canary: Path) -> None:
    """Forget that the canary was run."""
    (canary.parent / "fired").unlink(missing_ok=True)


def plain_status(tree: Path, patience_s: float = 10.0) -> str:
    """Return what a person's plain `git status` says in `tree`: its lines, `(nothing)`, or how it
    failed. A status that never ends says `(hangs)`."""
    try:
        done = subprocess.run(
            ["git", "status", "--porcelain"],
            cwd=tree,
            env={**os.environ, **_SECOND_COMMIT},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=patience_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "(hangs)"
    except OSError:
        return "(no such folder)"
    if done.returncode != 0:
        return "(fails)"
    return os.fsdecode(done.stdout).rstrip("\n") or "(nothing)"
