"""The temporary home of one demo: its repository, its agent, its broker and its listener.

Starts the verbs as a person would, through the console script beside this interpreter, and ends
every process that it started, by pid. Judges nothing.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import redis
from stops import held_back, leave_if_asked

HERE = Path(__file__).resolve().parent
VERB = Path(sys.executable).with_name("fleet-dispatch")
SENDER, HOST, LANE = "demo-sender", "DEMO-HOST", "DEMO"
START_S = 20.0  # for a broker or a listener on a slow machine
END_S = 8.0  # for either to end after TERM
VERB_S = 60.0  # for a verb that waits for nothing

BROKEN = "def add(a, b):\n    return a - b\n"
TEST = """import unittest

import calc


class Add(unittest.TestCase):
    def test_two_and_two_make_four(self):
        self.assertEqual(calc.add(2, 2), 4)
"""
CHECK = f"{shlex.quote(sys.executable)} -m unittest -q"

_Found = TypeVar("_Found")


class DemoFailed(Exception):
    """The story did not end as it should; the message says where."""


@dataclass(frozen=True)
class Stage:
    """The temporary home of one demo, and how the verbs are to see it."""

    root: Path
    agent: str
    scripted: bool
    program: str  # what the agent's process runs: a path that stands in its command line
    environment: dict[str, str]

    @property
    def repo(self) -> Path:
        """Return the repository with the failing test."""
        return self.root / "calc"

    @property
    def fleet(self) -> Path:
        """Return the root of config, keys and state."""
        return self.root / "fleet"


def say(text: str) -> None:
    """Tell the person; stdout stays for the result."""
    print(f"demo: {text}", file=sys.stderr, flush=True)


def wait_for(what: str, look: Callable[[], _Found | None], seconds: float) -> _Found:
    """Return what `look` finds; raise DemoFailed when it finds nothing in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        leave_if_asked()
        found = look()
        if found is not None:
            return found
        time.sleep(0.05)
    raise DemoFailed(f"{what}: not within {seconds:.0f} s")


def make_stage(root: Path, agent: str, *, scripted: bool) -> Stage:
    """Prepare homes, the repository and the agent's shim below `root`."""
    for name in ("bin", "home", "fleet"):
        (root / name).mkdir(mode=0o700)
    foreign = ("FLEET_DISPATCH_", "GIT_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    real = shutil.which(agent)
    if not scripted and real is None:
        raise DemoFailed(f"{agent} is not on PATH; install it and log in, or leave --agent out")
    # Our interpreter's folder too: a sandbox shows the folders of PATH wherever they lie.
    places = (str(root / "bin"), environment.get("PATH", os.defpath), str(VERB.parent))
    environment["PATH"] = os.pathsep.join(places)
    environment["FLEET_DISPATCH_HOME"] = str(root / "fleet")
    environment["PYTHONSAFEPATH"] = "1"
    if scripted:
        environment["HOME"] = str(root / "home")
    program = write_agent(root / "bin", agent) if scripted else str(real)
    stage = Stage(root, agent, scripted, program, environment)
    make_repository(stage)
    return stage


def write_agent(folder: Path, agent: str) -> str:
    """Place the scripted agent in `folder`, first on PATH; return the path of what it runs."""
    program = folder / "scripted_agent.py"
    shutil.copyfile(HERE / program.name, program)
    shim = folder / agent
    shim.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, str(program)])} "$@"\n')
    shim.chmod(0o700)
    return str(program)


def make_repository(stage: Stage) -> None:
    """Make a real repository whose one test fails, and see it fail."""
    stage.repo.mkdir()
    (stage.repo / "calc.py").write_text(BROKEN)
    (stage.repo / "test_calc.py").write_text(TEST)
    (stage.repo / ".gitignore").write_text("__pycache__/\n")
    author = (
        "-c",
        "user.name=Demo",
        "-c",
        "user.email=demo@localhost",
        "-c",
        "commit.gpgsign=false",
    )
    git(stage, "-c", "init.defaultBranch=master", "init", "-q")
    git(stage, "add", ".")
    git(stage, *author, "commit", "-q", "-m", "An adder that subtracts")
    before = subprocess.run(
        [sys.executable, "-B", "-m", "unittest", "-q"],
        check=False,
        cwd=stage.repo,
        env={k: v for k, v in stage.environment.items() if k != "PYTHONSAFEPATH"},
        capture_output=True,
        timeout=VERB_S,
    )
    if before.returncode == 0:
        raise DemoFailed("the repository's test passes before anything was mended")


def git(stage: Stage, *arguments: str) -> str:
    """Run git in the demo's repository; return its stdout."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=stage.repo,
        env=stage.environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=VERB_S,
    )
    return done.stdout


def run_verb(stage: Stage, *arguments: str, timeout_s: float = VERB_S) -> str:
    """Run one verb to its end and return its stdout; raise DemoFailed unless it exits 0."""
    leave_if_asked()
    try:
        done = subprocess.run(
            [VERB, *arguments],
            check=False,
            cwd=stage.root,
            env=stage.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as error:
        raise DemoFailed(f"fleet-dispatch {arguments[0]} did not end by itself") from error
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-4000:]
        raise DemoFailed(f"fleet-dispatch {arguments[0]} exited {done.returncode}:\n{said}")
    return done.stdout


@contextmanager
def running(stage: Stage, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Keep one verb running; yield its process and the file with all that it says."""
    log = stage.root / f"{arguments[0]}.log"
    with held_back(), log.open("wb") as sink:
        process = subprocess.Popen(
            [VERB, *arguments],
            cwd=stage.root,
            env=stage.environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,  # Ctrl-C reaches us, and we end it in order
        )
    try:
        leave_if_asked()
        yield process, log
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End `process`: TERM lets a listener finish, TERM again interrupts it, then KILL."""
    for stop in (process.terminate, process.terminate, process.kill):
        if process.poll() is None:
            stop()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            continue
        return


def broker_url(process: subprocess.Popen[bytes], log: Path) -> str:
    """Return the URL that the broker printed, once it answers there."""

    def look() -> str | None:
        if process.poll() is not None:
            raise DemoFailed(f"the broker ended:\n{log.read_text(errors='replace')[-2000:]}")
        found = re.search(r"redis://\S+", log.read_text(errors="replace"))
        return found.group() if found and answers(found.group()) else None

    return wait_for("the broker's answer", look, START_S)


def answers(url: str) -> bool:
    """Say whether a broker answers at `url`."""
    try:
        with closing(redis.Redis.from_url(url, socket_timeout=2)) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def free_port() -> int:
    """Return a loopback port that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def prepare_host(stage: Stage) -> None:
    """Make this home a sender and a host, and allow jobs on the demo's repository alone."""
    names = ("--sender", SENDER, "--host", HOST, "--lanes", LANE)
    run_verb(stage, "init", *names, "--repo-root", str(stage.repo))


def enqueue(stage: Stage, brief: str, wait_s: int) -> str:
    """Enqueue the job, wait for its result, and return the job's id."""
    request = {
        "agent": stage.agent,
        "task": brief,
        "repo": str(stage.repo),
        "ticket": "DEMO-1",
        "validateCommand": CHECK,
    }
    payload = stage.root / "job.json"
    payload.write_text(json.dumps(request))
    where = ("--targets", HOST, "--kind", "run_agent", "--lane", LANE)
    wanted = ("--payload-file", str(payload), "--wait", str(wait_s), "--json")
    said = run_verb(stage, "enqueue", *where, *wanted, timeout_s=wait_s + VERB_S)
    found = re.search(r'"jobId":\s*"([a-z0-9]{16,32})"', said)
    if found is None:
        raise DemoFailed(f"enqueue named no job id:\n{said[-2000:]}")
    return found.group(1)
