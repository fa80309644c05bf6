"""What a run costs this host around its agent, beside `git worktree add` and two `git status`.

The agent is a shell script that makes one edit and says that it is done; its few milliseconds are
left in ours. Everything else is as shipped: a sandbox, the looks, the journal, the run's log.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench.harness import NOT_MEASURED, Row, in_turns, place, run, timed
from tests.support.fleet import Machine, git

BOUND_S = 420
_BASELINE = "`git worktree add` and two `git status`"
_LOOKS = "no validation is run, so that the tree is looked at twice"
_AGENT = """#!/bin/sh
case "$*" in --version|--help) echo "scripted 1.2.3"; exit 0;; esac
cat >/dev/null
echo "one more line" >> d0/f0.txt
echo '{"type": "result", "subtype": "success", "is_error": false, "result": "Done."}'
"""


def rows(quick: bool) -> Iterator[Row]:
    """Yield the run without a spare, and with one where there are any: the two and plain git take
    turns, so that both are held against the same looks at a disk that swings."""
    files, rounds = (1_000, 3) if quick else (10_000, 7)
    with place() as folder:
        repo = make_large_repository(folder / "repo", files)
        size = sum(file.stat().st_size for file in repo.rglob("*.txt")) / 1e6
        with _host(folder) as host:
            bare = _Bare(repo, folder / "plain")
            # All once: page cache, the journal's file, the box's folders.
            host.seconds(repo)
            bare.seconds()
            sides = [lambda: host.seconds(repo), bare.seconds]
            if host.tend() >= 1:
                host.seconds(repo, spares=1)
                sides.append(lambda: host.seconds(repo, spares=1))
            cold, base, *warm = in_turns(*sides, rounds=rounds)
    work = f"whole run, {files:,} files, {size:.0f} MB, one edit"
    yield Row(f"{work}, cold", _BASELINE, 0.6, cold, base, note=_LOOKS)
    note = _LOOKS if warm else "no spare is made on this machine"
    ours = warm[0] if warm else NOT_MEASURED
    yield Row(f"{work}, warm spare", _BASELINE, 0.1, ours, base, note=note)


def make_large_repository(folder: Path, files: int) -> Path:
    """Make a packed repository of `files` files of 7.6 KB in one commit, the same each time."""
    dice = random.Random(7)
    for number in range(files):
        path = folder / f"d{number // 100}" / f"f{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(dice.randbytes(38).hex() + "\n" for _ in range(100)))
    git(folder, "init", "--quiet", "--initial-branch=master")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "as received")
    git(folder, "repack", "-adq")
    return folder


class _Bare:
    """Plain git, as a script would use it."""

    def __init__(self, repo: Path, tree: Path) -> None:
        self._repo, self._tree = repo, tree

    def seconds(self) -> float:
        """Return what one worktree and two looks take; the worktree is removed outside of that."""
        os.sync()
        try:
            return timed(self._once)
        finally:
            _remove(self._repo, self._tree, "plain")

    def _once(self) -> None:
        run(("git", "worktree", "add", "-q", "-b", "plain", self._tree), cwd=self._repo)
        for _ in range(2):
            run(("git", "status", "--porcelain"), cwd=self._tree)


class _Host:
    """A child that does what the verb does, one run after another."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child

    def seconds(self, repo: Path, *, spares: int = 0) -> float:
        """Return the seconds of a run that takes so many spares; what it left is removed."""
        before = self.tend() if spares else 0
        os.sync()
        answer = self._ask(json.dumps(_payload(repo)))
        result = answer["result"]
        assert result["status"] == "completed", result
        assert result["changed_files"] == ["d0/f0.txt"], result
        assert before - answer["spares"] == spares, answer
        tree = Path(result["worktreePath"])
        _remove(repo, tree, git(tree, "branch", "--show-current").strip())
        return float(answer["seconds"])

    def tend(self) -> int:
        """Have spares made as a listener does after a job, and return how many there are."""
        return int(self._ask("tend")["spares"])

    def _ask(self, line: str) -> dict[str, Any]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(f"{line}\n")
        self._child.stdin.flush()
        answer: dict[str, Any] = json.loads(self._child.stdout.readline())
        return answer


def _payload(repo: Path) -> dict[str, str]:
    return {"agent": "claude", "task": "One edit.", "repo": str(repo), "ticket": "B-1"}


@contextmanager
def _host(folder: Path) -> Iterator[_Host]:
    machine = Machine(folder / "home", folder / "bin", "", "DESK", sandbox="auto")
    machine.home.mkdir()
    machine.programs.mkdir()
    agent = machine.programs / "claude"
    agent.write_text(_AGENT)
    agent.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.bench.run_core"],
        env={**machine.environment, "PYTHONSAFEPATH": "", "PYTHONPATH": os.getcwd()},
        cwd=machine.home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as child:
        try:
            yield _Host(child)
        finally:
            assert child.stdin is not None
            child.stdin.close()
            _end(child)


def _end(child: subprocess.Popen[str], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    child.kill()


def _remove(repo: Path, tree: Path, branch: str) -> None:
    shutil.rmtree(tree, ignore_errors=True)
    git(repo, "worktree", "prune")
    git(repo, "branch", "-D", branch)
