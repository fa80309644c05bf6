"""Finds what a test left behind: processes, and worktrees of the project's own repository.

A process counts as a test's own when it is new and either descends from this run or names the
run's temporary folder in its command line, directory or environment: that also finds daemons which
have left the family. Only such processes are ever ended, by pid.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

LEAVING_S = 5.0  # a process that was told to end may need a moment under load


@dataclass(frozen=True)
class ProcessMark:
    """The process ids that were there before a test."""

    pids: frozenset[int]

    @classmethod
    def take(cls) -> ProcessMark:
        """Return the mark of this moment."""
        return cls(frozenset(_all_pids()))

    def left_behind(self, tmp: Path, *, patience_s: float = LEAVING_S) -> list[psutil.Process]:
        """Return the run's own newer processes that do not end by themselves."""
        deadline = time.monotonic() + patience_s
        while True:
            found = list(self._own_new(str(tmp)))
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.02)

    def _own_new(self, tmp: str) -> Iterator[psutil.Process]:
        for pid in _all_pids():
            if pid not in self.pids:
                process = _own_process(pid, tmp)
                if process is not None:
                    yield process


def describe_and_end(processes: list[psutil.Process]) -> str:
    """Kill each of `processes` by pid and return what they were."""
    lines: list[str] = []
    for process in processes:
        try:
            lines.append(f"{process.pid}: {' '.join(process.cmdline())[:200]}")
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(processes, timeout=LEAVING_S)
    return "\n".join(lines)


def worktrees_of(project: Path) -> frozenset[str]:
    """Return the names of the linked worktrees and job branches of the repository at `project`."""
    git_dir = project / ".git"
    names = {f"worktree {name}" for name in _names_in(git_dir / "worktrees")}
    names |= {f"branch wt/{name}" for name in _names_in(git_dir / "refs" / "heads" / "wt")}
    if Path(f"{project}-agents").exists():
        names.add(f"folder {project}-agents")
    return frozenset(names)


def _names_in(folder: Path) -> list[str]:
    return os.listdir(folder) if folder.is_dir() else []


def _all_pids() -> list[int]:
    if os.path.isdir("/proc/self"):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return psutil.pids()


def _own_process(pid: int, tmp: str) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None  # it runs no more; its parent has yet to look
        if any(parent.pid == os.getpid() for parent in process.parents()):
            return process
        words = [*process.cmdline(), process.cwd(), *process.environ().values()]
    except (psutil.Error, OSError):
        return None
    return process if any(tmp in word for word in words) else None
