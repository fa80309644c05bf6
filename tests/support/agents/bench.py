"""A bench for runs: a real repository, fake agents first on PATH, and a host to run orders on.

The fakes are real processes that write real files; what they do is a plan that the test hands in.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contracts.clock import SystemClock
from contracts.ids import new_job_id
from contracts.run_agent import AgentName, RunAgentRequest, RunAgentResult
from runagent.host import HostPorts, RunOrder, run_agent
from runagent.process import system_runner

NAMES = ("codex", "claude", "agy", "gemini", "grok")
PROGRAMS = {"codex": "codex", "claude": "claude", "gemini": "agy", "grok": "grok"}
GOOD = (("write", "src/new.py", "x = 1\n"), ("say", "I wrote src/new.py."), ("end",))

Step = Sequence[Any]


def install_fakes(folder: Path, names: Sequence[str] = NAMES) -> Path:
    """Put the fake agents into `folder`, each with a plan that does nothing; return `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    source = (Path(__file__).parent / "fake_agent.py").read_text(encoding="utf-8")
    for name in names:
        program = folder / name
        python = os.path.realpath(sys.executable)  # a venv may lie behind a space
        program.write_text(f"#!{python} -IS\n{source}", encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        plan(folder, name, ())
    return folder


def plan(folder: Path, name: str, *starts: Sequence[Step]) -> None:
    """Say what the fake `name` in `folder` does at each start, the last plan for all further."""
    (folder / f"{name}.plan.json").write_text(json.dumps([list(steps) for steps in starts]))


def calls(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return how the fake `name` in `folder` was started, one entry for each start."""
    path = folder / f"{name}.calls.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def make_repository(path: Path, files: Mapping[str, str] | None = None) -> Path:
    """Make a real git repository with one commit on `master`; return its path."""
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", "master")
    for name, text in {"README.md": "# A thing\n", **(files or {})}.items():
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    git(path, "add", "-A")
    git(path, "commit", "-q", "-m", "first")
    return path


def git(path: Path, *arguments: str) -> str:
    """Run git in `path` as somebody without any configuration; return what it printed."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
    }
    who = ("-c", "user.name=Owner", "-c", "user.email=owner@example.org")
    done = subprocess.run(
        ["git", *who, *arguments],
        cwd=path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    )
    return done.stdout


class Bench:
    """One repository, one folder of fakes, one host. `ports` overrides what a test needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repo = make_repository(folder / "repo")
        self.bin = install_fakes(folder / "bin")
        self.home = folder / "home"
        self.home.mkdir()
        self.environment = {
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
        }
        self.recorded: list[tuple[str, int]] = []

    def ports(self, job_id: str, **changes: Any) -> HostPorts:
        """Return a host's ports."""
        given: dict[str, Any] = {
            "runner": system_runner(),
            "clock": SystemClock(),
            "environment": self.environment,
            "runtime_dir": str(self.runtime_dir(job_id)),
            "record": lambda state, attempt, why: self.recorded.append((state, attempt)),
            "validation_timeout_s": 60,
            **changes,
        }
        return HostPorts(**given)

    def runtime_dir(self, job_id: str) -> Path:
        """Return where the host keeps what it needs for a job."""
        return self.folder / "state" / "runs" / job_id

    def order(
        self,
        agent: str = "claude",
        *,
        task: str = "Write src/new.py.",
        job_id: str | None = None,
        limit_s: float | None = 60,
        **fields: Any,
    ) -> RunOrder:
        """Return an order for `agent` on the repository of this bench."""
        request = RunAgentRequest(
            agent=agent, task=task, repo=fields.pop("repo", str(self.repo)), ticket="T-1", **fields
        )
        return RunOrder(
            job_id=job_id or new_job_id(),
            request=request,
            repo_on_host=request.repo,
            host="BENCH",
            limit_s=limit_s,
        )

    def run(
        self,
        agent: str = "claude",
        *starts: Sequence[Step],
        ports: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> RunAgentResult:
        """Run `agent` with a plan for each start; return the result."""
        plan(self.bin, PROGRAMS[agent], *(starts or (GOOD,)))
        order = self.order(agent, **fields)
        return run_agent(order, self.ports(order.job_id, **(ports or {})))

    def calls(self, agent: str) -> list[dict[str, Any]]:
        """Return the starts of `agent` on this bench."""
        return calls(self.bin, PROGRAMS[agent])

    def is_untouched(self) -> bool:
        """Say whether nothing of a job is left: no worktree, no branch, a clean main checkout."""
        return (
            git(self.repo, "worktree", "list").count("\n") == 1
            and git(self.repo, "branch", "--list", "wt/*") == ""
            and git(self.repo, "status", "--porcelain") == ""
            and not Path(f"{self.repo}-agents").exists()
        )


def codes(result: RunAgentResult) -> set[str]:
    """Return the codes of a result's risks."""
    return {risk.code for risk in result.risks}


def agent_names() -> tuple[AgentName, ...]:
    """Return the four agents."""
    return tuple(AgentName)
