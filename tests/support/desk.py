"""A person's desk: one repository, agents that are real scripts on PATH, and the verb `run-agent`.

Each run is the installed command as a process of its own, with a home of its own and an environment
built from nothing. An agent here is any Python program; it works in the directory it was started
in, as claude and grok do.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.fleet import PROGRAM, Machine, make_repository, place_program

# What an agent needs to say that its turn went well, in claude's stream.
_PREAMBLE = """
import json, os, signal, subprocess, sys, time
from pathlib import Path

def print_event(**fields):
    print(json.dumps(fields), flush=True)

def say(text):
    content = [{"type": "text", "text": text}]
    print_event(type="assistant", message={"role": "assistant", "content": content})

def finish(text="Done.", **fields):
    print_event(type="result", subtype="success", is_error=False, result=text, **fields)

"""


@dataclass(frozen=True)
class Done:
    """How a run of the verb ended."""

    code: int
    stdout: str
    stderr: str
    peak_bytes: int  # the largest resident memory of the verb's own process

    @property
    def result(self) -> dict[str, Any]:
        """Return the result: the whole of stdout, or this fails."""
        document: dict[str, Any] = json.loads(self.stdout)
        return document

    @property
    def codes(self) -> set[str]:
        """Return the codes of the recorded risks."""
        return {risk["code"] for risk in self.result["risks"]}


class Desk:
    """A repository `repo`, a folder of `programs` first on PATH, and the verb."""

    def __init__(self, folder: Path, files: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.repo = make_repository(folder / "repo", dict(files or {"README.md": "# A thing\n"}))
        home = folder / "home"
        home.mkdir()
        self.machine = Machine(
            home=home,
            programs=folder / "programs",
            redis_url="",  # none is named: a local run asks no broker
            name="DESK",
            sandbox="auto",
        )
        self.agent("finish()")

    def agent(self, text: str, name: str = "claude") -> Path:
        """Place an agent called `name` that does `text` and may say(), finish() and fail."""
        return place_program(self.machine.programs, name, _PREAMBLE + text)

    def words(self, *words: str, agent: str = "claude", repo: Path | None = None) -> list[str]:
        """Return the command line of a sound run, `words` behind it (the last of two wins)."""
        task = [] if "--task-file" in words else ["--task", "Do it."]
        given = ["--agent", agent, *task, "--repo", str(repo or self.repo), "--ticket", "T-1"]
        return [PROGRAM, "run-agent", *given, *words]

    def run(
        self,
        *words: str,
        agent: str = "claude",
        repo: Path | None = None,
        extra: Mapping[str, str] | None = None,
        seconds: float = 120.0,
    ) -> Done:
        """Run the verb to its end."""
        out, err = self.folder / "stdout", self.folder / "stderr"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                self.words(*words, agent=agent, repo=repo),
                env={**self.machine.environment, **(extra or {})},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )
            code, peak = wait_for_end(process, seconds)
        return Done(code, out.read_text(), err.read_text(), peak)

    def tree(self, done: Done) -> Path:
        """Return the worktree of a run."""
        return Path(done.result["worktreePath"])

    def raw_output(self, done: Done) -> bytes:
        """Return the raw stdout that the host kept of a run's first attempt."""
        runs = self.machine.home / "fleet" / "state" / "runs"
        return (runs / done.result["jobId"] / "attempt-1.stdout").read_bytes()


def wait_for_end(process: subprocess.Popen[bytes], seconds: float) -> tuple[int, int]:
    """Wait for `process`; return its exit code and its peak memory in bytes.

    The peak is read while it runs: what the kernel reports at the end also counts the moment
    before the program replaced a copy of this one.
    """
    deadline = time.monotonic() + seconds
    peak = 0
    while process.poll() is None:
        peak = max(peak, peak_bytes(process.pid))
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise AssertionError(f"the verb did not end within {seconds:g} s")
        time.sleep(0.02)
    return process.returncode, peak


def peak_bytes(pid: int) -> int:
    """Return the largest resident memory that the program of `pid` had so far; 0 when it ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    sizes = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")]
    return sizes[0] if sizes else 0
