"""One sender and one listening host with real keys, for tests that reach below the verbs.

The sender signs whatever it is told to, honest or not; the host is a real listener process with a
home of its own, whose agents are scripts first on its PATH. Ended by its pid.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from contracts import naming
from contracts.clock import Clock, SystemClock
from contracts.dispatch_result import ResultClaims
from contracts.envelope import JOB_TYPE, RESULT_TYPE, open_envelope, seal
from contracts.ids import new_job_id
from contracts.plain_result import unpacked
from contracts.run_agent import RunAgentResult
from contracts.strict_json import dump_strict
from dispatch.key_records import dump_record
from dispatch.key_store import accept_grant, create_sender, record_grant
from dispatch.keyring import SenderKeyring
from dispatch.private_files import make_private_folder, write_private_file
from dispatch.queue import FleetQueue
from tests.support.broker import Broker
from tests.support.fleet import make_repository, place_program, wait_until
from worker.journal.journal import Journal

LANE = "L"
SENDER = "alice"
_START = "from worker.commands.listen import command; command()"
_VERB = "from dispatch.cli import main; main()"

# Agents of these tests note their starts in the home, and some act on the host: that needs no box
# around them. What holds inside one is tried in tests/hostile/agent.
NO_BOX = '[sandbox]\nmode = "none"\n'

AGENT = """
import os, sys, time
if {"--version", "--help"} & set(sys.argv):
    print("scripted-codex 1.2.3")
    sys.exit()
task = sys.stdin.read()
with open("starts.txt", "a") as log:
    log.write("one start\\n")
with open(os.environ["HOME"] + "/starts", "a") as log:
    log.write(os.getcwd() + "\\n")
    log.flush()
if "until released" in task:
    while not os.path.exists(os.environ["HOME"] + "/released"):
        time.sleep(0.02)
"""


@dataclass
class Sender:
    """Who signs jobs."""

    keys_dir: Path
    name: str = SENDER
    clock: Clock = field(default_factory=SystemClock)

    @property
    def keyring(self) -> SenderKeyring:
        return SenderKeyring.load(self.keys_dir, self.name, self.clock)

    def claims(self, *, aud: str, payload: dict[str, Any], **changes: Any) -> dict[str, Any]:
        """Return honest claims with `changes`."""
        now = int(time.time())
        honest = {
            "iss": self.name,
            "aud": aud,
            "lane": LANE,
            "kind": "run_agent",
            "jti": new_job_id(),
            "iat": now,
            "exp": now + 3_600,
            "payload": payload,
        }
        return honest | changes

    def sign(self, claims: dict[str, Any], *, for_aud: str | None = None) -> str:
        """Return the envelope of `claims`, signed with the key for `for_aud` or their own one."""
        signers = self.keyring.job_signers(for_aud or claims["aud"])
        return seal(dump_strict(claims), JOB_TYPE, signers)


@dataclass
class Host:
    """A host and its listener."""

    home: Path
    broker: Broker
    sender: Sender
    repo: Path
    name: str = "HOSTA"
    lanes: tuple[str, ...] = (LANE,)
    options: tuple[str, ...] = ()
    extra: dict[str, str] = field(default_factory=dict)
    log_name: str = "listener.log"
    config: str = ""  # more of config.toml
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def queue_name(self) -> str:
        return naming.host_queue(LANE, self.name)

    @property
    def aud(self) -> str:
        return naming.host_audience(self.name)

    @property
    def fleet_home(self) -> Path:
        return self.home / "fleet"

    @property
    def journal_file(self) -> Path:
        return self.fleet_home / "state" / "journal.sqlite3"

    @property
    def log(self) -> str:
        path = self.home / self.log_name
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def starts(self) -> int:
        """Return how many agents were started on this host."""
        path = self.home / "starts"
        return len(path.read_text().splitlines()) if path.exists() else 0

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.home / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home),
            "USER": "tester",
            "LANG": "C.UTF-8",
            "FLEET_DISPATCH_HOME": str(self.fleet_home),
            "FLEET_DISPATCH_REDIS_URL": self.broker.url,
            # Its agents talk to the test over files in the home, which a box keeps to itself.
            "FLEET_DISPATCH_SANDBOX": "none",
            "PYTHONSAFEPATH": "1",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            **{k: v for k, v in os.environ.items() if k.startswith(("COVERAGE_", "COV_CORE"))},
            **self.extra,
        }

    def payload(self, **changes: Any) -> dict[str, Any]:
        honest = {"agent": "codex", "task": "do it", "repo": str(self.repo), "ticket": "T-1"}
        return honest | changes

    def job(self, *, aud: str | None = None, payload: dict[str, Any] | None = None, **changes: Any):
        """Return claims for this host (or `aud`)."""
        asked = self.payload() if payload is None else payload
        return self.sender.claims(aud=aud or self.aud, payload=asked, **changes)

    def push(self, claims: dict[str, Any], *, envelope: str | None = None, queue: str = "") -> str:
        """Queue `claims` as an honest sender does and return the job id."""
        lane = naming.lane_queue(LANE) if claims["aud"].startswith("lane:") else self.queue_name
        text = self.sender.sign(claims) if envelope is None else envelope
        fleet_queue = FleetQueue.connect(self.broker.url)
        fleet_queue.push(text, claims["jti"], queue or lane, {"state": "queued"})
        fleet_queue.close()
        return str(claims["jti"])

    @property
    def command(self) -> list[str]:
        """Return the command of the listener; the lanes stand last."""
        command = [sys.executable, "-P", "-c", _START, "--host", self.name, *self.options]
        for lane in self.lanes:
            command += ["--lane", lane]
        return command

    def journal_history(self, job_id: str) -> list[str]:
        """Return the states of a job as this host's journal has them, in order."""
        journal = Journal(self.journal_file, SystemClock())
        try:
            return [row.state.value for row in journal.history(job_id)]
        finally:
            journal.close()

    def start(self) -> None:
        """Start the listener and wait until it says that it listens."""
        assert self.process is None
        before = self.log.count(" listening ")
        with (self.home / self.log_name).open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                env=self.environment,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(lambda: self._listens(before), "the listener listens", 90)

    @property
    def pid(self) -> int:
        assert self.process is not None, "the listener does not run"
        return self.process.pid

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """Kill the listener as a crash does."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(30)
        self.process = None

    def stop(self, *, seconds: float = 60.0) -> int:
        """Ask the listener to end and return its exit code; 0 when it does not run."""
        process, self.process = self.process, None
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)
            raise AssertionError(f"the listener did not end:\n{self.log}") from None

    def stored(self, job_id: str) -> bytes | None:
        """Return the stored result of a job as it stands in Redis."""
        with self.broker.client() as connection:
            return connection.get(naming.result_key(job_id))

    def result(self, job_id: str, *, seconds: float = 60.0) -> Any:
        """Wait for the verified result of a job and return it."""
        try:
            wait_until(lambda: self.stored(job_id) is not None, f"a result of {job_id}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log[-4000:]}") from None
        text = self.stored(job_id)
        assert text is not None
        opened = open_envelope(text, self.sender.keyring, RESULT_TYPE)
        claims = ResultClaims.model_validate_json(opened.payload)
        assert (claims.jti, claims.aud) == (job_id, self.sender.name)
        return unpacked(claims.payload, host=claims.iss)

    def start_waiting_job(self, *, aud: str | None = None, **payload: Any) -> str:
        """Start a job whose agent waits for `release`, and return its id once the agent runs."""
        starts = self.starts
        job = self.job(aud=aud, payload=self.payload(task="wait until released", **payload))
        job_id = self.push(job)
        wait_until(lambda: self.starts > starts, "the agent has started")
        return job_id

    def release(self) -> None:
        """Let every agent that waits, and every later one, go on."""
        (self.home / "released").touch()

    def family(self) -> list[psutil.Process]:
        """Return every process below the listener: runs, wardens, agents."""
        assert self.process is not None
        return psutil.Process(self.process.pid).children(recursive=True)

    def run_processes(self) -> list[psutil.Process]:
        """Return the run processes of this moment, one for each job under way."""
        return [item for item in self.family() if "worker.runs.run_start" in _last_word(item)]

    def published_result(self, job_id: str) -> RunAgentResult:
        """Return the result of a job once the listener has nothing left to do for it."""
        result = self.result(job_id)
        self.published(job_id)
        return result

    def published(self, job_id: str) -> None:
        """Wait until the listener has nothing left to do for a job."""
        wait_until(lambda: f"published job={job_id}" in self.log, f"{job_id} is published")

    def run_honest_job(self) -> RunAgentResult:
        """Send an honest job and return its result, which must be a completed one."""
        result = self.result(self.push(self.job()))
        assert result.status == "completed", f"{result}\n{self.log[-4000:]}"
        return result

    def read_json(self, *words: str, seconds: float = 120.0) -> Any:
        """Run one verb on this host's machine, which must exit 0, and return what it printed."""
        done = subprocess.run(
            [sys.executable, "-P", "-c", _VERB, *words, "--json"],
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, f"{words}: exit {done.returncode}\n{done.stderr}"
        return json.loads(done.stdout)

    def dead_letters(self) -> list[dict[str, Any]]:
        with self.broker.client() as connection:
            return [json.loads(item) for item in connection.lrange(naming.dead_letters(), 0, -1)]

    def wait_for_dead_letter(self, reason: str) -> None:
        wait_until(
            lambda: any(letter["reason"] == reason for letter in self.dead_letters()),
            f"a dead letter {reason}, not {self.dead_letters()}",
        )

    def _listens(self, before: int) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the listener ended:\n{self.log}"
        return self.log.count(" listening ") > before


def are_gone(processes: Iterable[psutil.Process]) -> bool:
    """Say whether none of `processes` runs any more."""
    return not any(process.is_running() for process in processes)


def _last_word(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline()[-1:])
    except psutil.Error:
        return ""


def make_host(
    folder: Path, broker: Broker, sender: Sender, repo: Path, name: str = "HOSTA", **options: Any
) -> Host:
    """Make a host with a grant of `sender`, a policy and an agent; its listener is not started."""
    host = Host(folder / name, broker, sender, repo, name=name, **options)
    make_private_folder(host.fleet_home / "keys")
    grant = sender.keyring.create_grant(name, host.lanes)
    record_grant(sender.keys_dir, grant)
    accept_grant(
        host.fleet_home / "keys", dump_record(grant), name, file="grant", clock=SystemClock()
    )
    policy = f'[senders."*"]\nrepo_roots = ["{folder}"]\nvalidate = "any"\n'
    write_private_file(host.fleet_home / "policy.toml", policy.encode(), replace=True)
    write_private_file(
        host.fleet_home / "config.toml", (NO_BOX + host.config).encode(), replace=True
    )
    place_program(host.home / "bin", "codex", AGENT)
    return host


def make_sender(folder: Path) -> Sender:
    """Make a sender with a first master key."""
    create_sender(folder / "keys", SENDER, SystemClock())
    return Sender(folder / "keys")


@contextmanager
def listening_host(folder: Path, broker: Broker, **options: Any) -> Iterator[Host]:
    """Yield a host whose listener runs; it is ended afterwards."""
    repo = make_repository(folder / "repo", {"readme.txt": "hello\n"})
    host = make_host(folder, broker, make_sender(folder / "sender"), repo, **options)
    host.start()
    try:
        yield host
    finally:
        host.stop()


@pytest.fixture
def host(broker: Broker, tmp_path: Path) -> Iterator[Host]:
    """One listening host on the test's broker. Import the name into a conftest to use it."""
    with listening_host(tmp_path, broker) as listening:
        yield listening
        listening.release()  # a test that failed must not leave an agent to be waited for
