"""A small fleet on one machine, made of the real thing: a Valkey, homes, listeners, the verbs.

Every machine has a home of its own and an environment built from nothing; agents are scripts first
on its PATH. Listeners are ended by their pid. Nothing here stands in for the product.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis import Redis

from contracts import naming

PROGRAM = str(Path(sys.executable).with_name("fleet-dispatch"))
_READY_S = 30.0
_END_S = 30.0


def wait_until(claim: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    """Return when `claim()` holds; fail naming `what` after `seconds`."""
    give_up = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < give_up, f"not within {seconds:g} s: {what}"
        threading.Event().wait(0.05)


@dataclass
class Machine:
    """One host or sender: its own home, its own programs, the one broker."""

    home: Path
    programs: Path  # a folder that stands first on PATH
    redis_url: str
    name: str
    extra: dict[str, str] = field(default_factory=dict)
    sandbox: str = "none"  # agents that talk to the test over files in the home need that
    ready_s: float = _READY_S  # until a listener's heartbeat is seen

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of every process of this machine, built from nothing."""
        return {
            # Our own interpreter is on it, so that a box shows it wherever the project lies.
            "PATH": os.pathsep.join(
                (str(self.programs), os.environ["PATH"], os.path.dirname(sys.executable))
            ),
            "HOME": str(self.home),
            "USER": "tester",
            "LANG": "C.UTF-8",
            "FLEET_DISPATCH_HOME": str(self.home / "fleet"),
            **({"FLEET_DISPATCH_REDIS_URL": self.redis_url} if self.redis_url else {}),
            "FLEET_DISPATCH_SANDBOX": self.sandbox,
            "PYTHONSAFEPATH": "1",
            **{k: v for k, v in os.environ.items() if k.startswith(("COVERAGE_", "COV_CORE"))},
            **self.extra,
        }

    def run(
        self, *arguments: str, stdin: str | None = None, seconds: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """Run one verb to its end and return it, whatever its exit code."""
        return subprocess.run(
            [PROGRAM, *arguments],
            env=self.environment,
            cwd=self.home,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def succeed(self, *arguments: str, stdin: str | None = None, seconds: float = 120.0) -> str:
        """Run one verb, which must exit 0, and return its stdout."""
        done = self.run(*arguments, stdin=stdin, seconds=seconds)
        assert done.returncode == 0, (
            f"{arguments}: exit {done.returncode}\n{done.stderr}\n{done.stdout}"
        )
        return done.stdout

    def read_json(self, *arguments: str, seconds: float = 120.0) -> Any:
        """Run one verb with --json, which must exit 0, and return the one document it printed."""
        return json.loads(self.succeed(*arguments, "--json", seconds=seconds))

    @contextmanager
    def listening(self, *lanes: str, options: Sequence[str] = ()) -> Iterator[Listener]:
        """Yield a listener of this machine that serves `lanes`, ended in order afterwards."""
        listener = Listener(self, lanes, options)
        try:
            listener.start()
            yield listener
        finally:
            listener.stop()


class Listener:
    """One real `fleet-dispatch listen` process."""

    def __init__(self, machine: Machine, lanes: Sequence[str], options: Sequence[str]) -> None:
        self._machine = machine
        self._arguments = [PROGRAM, "listen", "--host", machine.name, *options]
        for lane in lanes:
            self._arguments += ["--lane", lane]
        self.log = machine.home / "listener.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int:
        """Return the listener's process id."""
        assert self.process is not None, "the listener is not running"
        return self.process.pid

    def start(self) -> None:
        """Start the process and wait until its heartbeat is seen."""
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._arguments,
                env=self._machine.environment,
                cwd=self._machine.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(self._is_seen, f"a heartbeat of {self._machine.name}", self._machine.ready_s)

    def kill(self) -> None:
        """Kill the process as a crash does."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(_END_S)
        self.process = None

    def stop(self) -> None:
        """Ask the process to finish; it must exit 0. A no-op when it is not running."""
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_END_S)
            raise AssertionError(f"the listener did not end:\n{self.text()}") from None
        assert code == 0, f"the listener ended with {code}:\n{self.text()}"

    def text(self) -> str:
        """Return the end of what the listener printed."""
        return self.log.read_text(errors="replace")[-8_000:]

    def _is_seen(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the listener ended:\n{self.text()}"
        if b" listening " not in self.log.read_bytes()[self._log_start :]:
            return False
        if self._machine.redis_url.startswith("redis://127.0.0.1"):  # others want what a verb knows
            return self._has_beaten()
        rows = self._machine.read_json("hosts")["hosts"]
        return any(row["host"] == self._machine.name and row["state"] == "live" for row in rows)

    def _has_beaten(self) -> bool:
        """Say whether this very process has beaten, without a process for the question."""
        with Redis.from_url(self._machine.redis_url) as connection:
            beat = connection.get(naming.host_key(self._machine.name))
        return beat is not None and json.loads(beat)["pid"] == self.pid


def git(folder: Path, *arguments: str) -> str:
    """Run the machine's git in `folder` with nobody's settings; return its stdout."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "HOME": os.devnull,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_AUTHOR_NAME": "Owner",
            "GIT_AUTHOR_EMAIL": "owner@example.invalid",
            "GIT_COMMITTER_NAME": "Owner",
            "GIT_COMMITTER_EMAIL": "owner@example.invalid",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def make_repository(folder: Path, files: dict[str, str]) -> Path:
    """Make a git repository with one commit of `files` on `master`, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    commit_everything(folder)
    return folder


def commit_everything(folder: Path) -> None:
    """Make `folder` a repository with all that it holds in one commit on `master`."""
    git(folder, "init", "--quiet", "--initial-branch=master")
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--message", "as received")


# A CLI says its version and its options before it does anything, and a stand-in does no less.
_CLIS = frozenset({"claude", "codex", "gemini", "agy", "grok", "ollama"})
_SAYS_NOTHING_OF_ITSELF = """import sys
if len(sys.argv) <= 3 and sys.argv[-1] in ("--version", "--help"):
    sys.exit()
"""


def place_program(folder: Path, name: str, text: str) -> Path:
    """Place an executable Python script called `name` into `folder`, run by this interpreter.

    An agent's stand-in that does not look for `--version` itself ends at once when it is asked.
    """
    if name in _CLIS and "--version" not in text:
        text = _SAYS_NOTHING_OF_ITSELF + text
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    python = os.path.realpath(sys.executable)  # a checkout, and so a venv, may lie behind a space
    path.write_text(f"#!{python} -I\n{text}")
    path.chmod(0o755)
    return path
