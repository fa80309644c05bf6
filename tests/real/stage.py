"""One host of the product with the real CLIs: its home, its repositories, its listener, its jobs.

Everything goes through the verbs: init, listen, enqueue. A result is read as its sender reads it,
the signature checked. What the host left on the machine is looked for from outside.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from contracts import naming
from contracts.clock import SystemClock
from contracts.dispatch_result import ResultClaims
from contracts.envelope import RESULT_TYPE, open_envelope
from dispatch.keyring import SenderKeyring
from tests.real import settings
from tests.real.cases import Case, Scenario, prompt_text
from tests.support.broker import Broker
from tests.support.fleet import Machine, git, make_repository
from tests.support.model.server import ModelServer

_FILES = {
    "calc.py": "def add(a, b):\n    return a - b\n",
    "test_calc.py": (
        "import unittest\n\nimport calc\n\n\nclass Add(unittest.TestCase):\n"
        "    def test_two_and_two_make_four(self):\n"
        "        self.assertEqual(calc.add(2, 2), 4)\n"
    ),
    ".gitignore": "__pycache__/\n",
}
_LEAVING_S = 10.0
_READY_S = 180.0
STOPPED = threading.Event()  # whoever waits for a result goes home
_SETTING_UP = threading.Semaphore(2)  # hosts: more of them at a time only wait for each other


@dataclass(frozen=True)
class Outcome:
    """What came of one job: the result as it was signed, or why there is none."""

    seconds: float
    result: dict[str, Any] | None
    refusal: str = ""
    problems: tuple[str, ...] = ()


class RealHost(Machine):
    """A machine whose agents are the real CLIs, and nobody's environment around it."""

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of every process of this machine, built from nothing."""
        return super().environment | self.extra


class Stage:
    """One scenario's host and jobs."""

    def __init__(
        self, folder: Path, scenario: Scenario, programs: Path, broker: Broker, model: ModelServer
    ) -> None:
        self.folder, self.scenario = folder, scenario
        self._broker = broker
        self.host = f"REAL-{folder.name.partition('-')[0].upper()}"
        self.home, self.outside = folder / "home", folder.parent / "outside" / folder.name
        for path in (self.home, self.outside):
            path.mkdir(parents=True)
        self.url = f"{model.url}/{scenario.model}/{folder.name}"
        self.machine = RealHost(
            home=self.home,
            programs=programs,
            redis_url=broker.url,
            name=self.host,
            sandbox=scenario.sandbox,
            ready_s=_READY_S,
            extra={
                **settings.variables(self.home, self.url, scenario.login),
                **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), model.url),
                "NO_PROXY": "127.0.0.1,localhost",
            },
        )
        self.repos = {
            case.agent: make_repository(folder / case.agent, _FILES) for case in scenario.cases
        }
        settings.write_files(self.home, self.url)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Set the host up and keep its listener running."""
        names = ("--sender", settings.SENDER, "--host", self.host, "--lanes", settings.LANE)
        with _SETTING_UP:
            self.machine.succeed("init", *names, "--repo-root", str(self.folder))
        text = settings.machine_config(
            self.host,
            self.scenario.preset,
            self.scenario.sandbox,
            self.scenario.concurrency,
            self.outside,
        )
        (self.home / "fleet" / "config.toml").write_text(text)
        with contextlib.ExitStack() as stack:
            with _SETTING_UP:
                stack.enter_context(self.machine.listening(settings.LANE))
            yield

    def send(self, case: Case) -> str:
        """Queue the job of one CLI; return its id, or the words of the refusal after `!`."""
        agent = case.agent
        request: dict[str, Any] = {
            "agent": agent,
            "task": prompt_text(self.scenario.prompt),
            "repo": str(self.repos[agent]),
            "ticket": f"REAL-{agent}",
            "timeoutSec": case.timeout,
        }
        if self.scenario.validate:
            named = {"suite": f"{shlex.quote(sys.executable)} -m unittest -q"}
            request["validateCommand"] = named.get(self.scenario.validate, self.scenario.validate)
        payload = self.folder / f"{agent}.json"
        payload.write_text(json.dumps(request))
        words = (
            "--targets",
            self.host,
            "--lane",
            settings.LANE,
            "--payload-file",
            str(payload),
            "--json",
        )
        done = self.machine.run("enqueue", *words)
        found = re.search(r'"jobId":\s*"([a-z0-9]{16,32})"', done.stdout)
        if done.returncode == 2 and not found:
            return f"!{(done.stderr or done.stdout).strip()}"
        assert found, f"enqueue exited {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return found.group(1)

    def receive(self, job: str, seconds: float) -> dict[str, Any] | None:
        """Return the verified result of `job`, None when it did not come in time."""
        until = time.monotonic() + seconds
        with self._broker.client() as connection:
            while (stored := connection.get(naming.result_key(job))) is None:
                if time.monotonic() > until or STOPPED.is_set():
                    return None
                time.sleep(0.1)
        keys = SenderKeyring.load(self.home / "fleet" / "keys", settings.SENDER, SystemClock())
        claims = ResultClaims.model_validate_json(open_envelope(stored, keys, RESULT_TYPE).payload)
        assert (claims.jti, claims.iss, claims.aud) == (job, self.host, settings.SENDER)
        found: dict[str, Any] = json.loads(claims.payload.stdoutTail)
        return found

    def checkout_problem(self, agent: str) -> str:
        """Return what changed in the main checkout of one CLI's repository; "" for nothing."""
        return git(self.repos[agent], "status", "--porcelain").strip()

    def commits(self, agent: str, branch: str) -> int:
        """Return how many commits a job's branch has beyond the first one."""
        told = git(self.repos[agent], "rev-list", "--count", f"master..{branch}")
        return int(told.strip())

    def files_outside(self) -> list[str]:
        """Return what now lies in the folder that no job may write to."""
        found = (path for path in self.outside.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self.outside)) for path in found)

    def survivors(self, below: Path) -> list[str]:
        """Return the command lines of processes that still work below `below`, after a while."""
        until = time.monotonic() + _LEAVING_S
        while (found := _at_work(below)) and time.monotonic() < until:
            time.sleep(0.05)
        return found


def _at_work(below: Path) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and _is_of(process, str(below)):
                found.append(" ".join(process.cmdline())[:200])
        except (psutil.Error, OSError):
            continue  # it ended while it was looked at
    return found


def _is_of(process: psutil.Process, folder: str) -> bool:
    if process.status() == psutil.STATUS_ZOMBIE:
        return False
    home = process.environ().get("HOME", "")
    return f"{process.cwd()}/".startswith(f"{folder}/") or f"{home}/".startswith(f"{folder}/")
