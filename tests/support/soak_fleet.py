"""What the soak works on: a broker, two hosts, a sender, and the hand that kills.

Everything is real. Kills are placed by progress, not by the clock, so that a slow machine gets as
many of them as a fast one.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from redis.exceptions import RedisError

from contracts import naming
from contracts.dispatch_result import ResultClaims
from contracts.envelope import RESULT_TYPE, open_envelope
from contracts.errors import FleetError
from contracts.run_agent import RunAgentResult
from dispatch.queue import FleetQueue
from tests.support.broker import Broker
from tests.support.fleet import make_repository, place_program
from tests.support.hosts import LANE, Host, make_host, make_sender

FULL_SECONDS = 600.0
FULL_JOBS, FULL_COPIES, FULL_KILLS = 500, 100, 36
LEAST_JOBS, LEAST_COPIES, LEAST_KILLS = 30, 6, 10
MID_RUN_SHARE = 2  # every second kill waits for a moment when an agent is at work
BACKLOG = 12  # jobs that wait at one moment: enough that no host is idle
_PATIENCE_S = 120.0

# Marks its start and its end with the job's own worktree, and takes 50 to 300 ms between them.
AGENT = """
import os, sys, time
if {"--version", "--help"} & set(sys.argv):
    print("scripted-codex 1.2.3")
    sys.exit()
pause = int(sys.stdin.read().rpartition(" ")[2]) / 1000
marks = os.path.join(os.environ["HOME"], "marks")
job = os.path.basename(os.getcwd())
open(os.path.join(marks, job + "." + str(os.getpid()) + ".start"), "x").close()
open("made.txt", "w").write(job)
time.sleep(pause)
open(os.path.join(marks, job + "." + str(os.getpid()) + ".end"), "x").close()
"""


@dataclass(frozen=True)
class Size:
    """How much of it there is."""

    jobs: int
    copies: int
    kills: int

    @classmethod
    def of(cls, seconds: float) -> Size:
        share = min(1.0, seconds / FULL_SECONDS)
        return cls(
            jobs=max(LEAST_JOBS, round(FULL_JOBS * share)),
            copies=max(LEAST_COPIES, round(FULL_COPIES * share)),
            kills=max(LEAST_KILLS, round(FULL_KILLS * share)),
        )


class Fleet:
    """The broker, the two hosts and the sender, with what was sent and what came of it."""

    def __init__(self, folder: Path, size: Size, dice: random.Random) -> None:
        self.folder = folder
        self.size = size
        self._dice = random.Random(dice.random())  # the sender's own: it works beside the killer
        self.broker = Broker(folder / "broker")
        self.repo = make_repository(folder / "repo", {"readme.txt": "hello\n"})
        self.sender = make_sender(folder / "sender")
        options = ("--concurrency", "2")
        self.hosts = [self._host(name, options) for name in ("NORTH", "SOUTH")]
        self.sent: dict[str, tuple[str, str]] = {}  # job -> (queue, envelope)
        self.results: dict[str, RunAgentResult] = {}
        self.copies = 0
        self.all_killed = threading.Event()

    def _host(self, name: str, options: tuple[str, ...]) -> Host:
        host = make_host(
            self.folder, self.broker, self.sender, self.repo, name=name, options=options
        )
        # Low enough that what a kill left without work is put aside by the collections.
        limit = "[worktrees]\nmax_count = 20\n"
        with (host.fleet_home / "config.toml").open("a") as config:
            config.write(limit)
        place_program(host.home / "bin", "codex", AGENT)
        (host.home / "marks").mkdir()
        return host

    # -- sending ------------------------------------------------------------------------------
    def send_all(self, stop: threading.Event) -> None:
        """Send every job and every copy, no faster than the hosts end them, until `stop` is set."""
        size = self.size
        while not stop.is_set() and (len(self.sent) < size.jobs or self.copies < size.copies):
            if len(self.sent) < size.jobs and self._may_send():
                self.send_one()
                if self._dice.random() < size.copies / size.jobs and self.copies < size.copies:
                    self.send_copy()
            elif len(self.sent) == size.jobs:
                self.send_copy()
            else:
                stop.wait(0.02)

    def _may_send(self) -> bool:
        """Say whether the next job may go. The last tenth goes one by one until every kill has
        landed, so that the last kills have something to hit."""
        waiting = len(self.sent) - len(self.results)
        is_kept = len(self.sent) >= 0.9 * self.size.jobs and not self.all_killed.is_set()
        return waiting < (1 if is_kept else BACKLOG)

    def send_one(self) -> None:
        """Sign and queue one job for one of the hosts or for the lane."""
        host = self._dice.choice(self.hosts)
        for_lane = self._dice.random() < 0.5
        aud = naming.lane_audience(LANE) if for_lane else host.aud
        queue = naming.lane_queue(LANE) if for_lane else host.queue_name
        task = f"take {self._dice.randint(50, 300)}"
        claims = host.job(aud=aud, payload=host.payload(task=task))
        job_id = str(claims["jti"])
        envelope = self.sender.sign(claims)
        self.push(job_id, queue, envelope)
        self.sent[job_id] = (queue, envelope)

    def push(self, job_id: str, queue: str, envelope: str) -> None:
        """Queue the bytes of a job, again if need be, until the broker has them."""
        fleet_queue = FleetQueue.connect(self.broker.url)
        try:
            until_it_answers(lambda: fleet_queue.push(envelope, job_id, queue, {"state": "queued"}))
        finally:
            fleet_queue.close()

    def send_copy(self) -> None:
        """Deliver a job again that was sent before, whatever has become of it."""
        job_id = self._dice.choice(list(self.sent))
        queue, envelope = self.sent[job_id]

        def deliver() -> None:
            with self.broker.client() as connection:
                connection.rpush(naming.rq_list(queue), job_id)
                connection.publish(naming.bell_channel(queue), b"1")

        if self._dice.random() < 0.5:  # as an attacker does, or as a sender after a loss
            until_it_answers(deliver)
        else:
            until_it_answers(lambda: self._forget(job_id))
            self.push(job_id, queue, envelope)
        self.copies += 1

    def _forget(self, job_id: str) -> None:
        with self.broker.client() as connection:
            connection.delete(naming.job_key(job_id))

    # -- what came of it ----------------------------------------------------------------------
    def look_for_results(self) -> int:
        """Read and verify every result that is new; return how many there are in all."""
        missing = [job_id for job_id in list(self.sent) if job_id not in self.results]

        def look() -> list[bytes | None]:
            with self.broker.client() as connection:
                return list(connection.mget([naming.result_key(job) for job in missing]))

        texts: list[bytes | None] = []
        if missing:
            until_it_answers(lambda: texts.extend(look()))
        for job_id, text in zip(missing, texts, strict=False):
            if text is not None:
                self.results[job_id] = self._verified(job_id, text)
        return len(self.results)

    def _verified(self, job_id: str, text: bytes) -> RunAgentResult:
        opened = open_envelope(text, self.sender.keyring, RESULT_TYPE)
        claims = ResultClaims.model_validate_json(opened.payload)
        assert (claims.jti, claims.aud) == (job_id, self.sender.name)
        return RunAgentResult.model_validate_json(claims.payload.stdoutTail)

    def agents_at_work(self, host: Host) -> int:
        """Return how many agents of a host have begun and neither ended nor died."""
        marks = {path.name for path in (host.home / "marks").iterdir()}
        begun = {name.removesuffix(".start") for name in marks if name.endswith(".start")}
        open_ones = {name for name in begun if f"{name}.end" not in marks}
        return sum(psutil.pid_exists(int(name.rpartition(".")[2])) for name in open_ones)


def until_it_answers(act: Callable[[], Any]) -> None:
    """Do what needs the broker, again and again while it is away."""
    give_up = time.monotonic() + _PATIENCE_S
    while True:
        try:
            act()
            return
        except (FleetError, RedisError, OSError):
            if time.monotonic() > give_up:
                raise
            time.sleep(0.1)


class Killer:
    """Kills what it chose, when progress has come so far, and starts it again."""

    def __init__(self, fleet: Fleet, dice: random.Random) -> None:
        self._fleet = fleet
        self._dice = dice
        size = fleet.size
        # From the first twentieth to the last: a kill after the last job would hit nothing.
        steps = [0.05 + 0.85 * number / size.kills for number in range(size.kills)]
        self._due = [round(step * size.jobs) for step in steps]
        kinds = ["listener", "run", "broker"]
        self._kinds = [kinds[number % 3] for number in range(size.kills)]
        self._dice.shuffle(self._kinds)
        self.landed: Counter[str] = Counter()
        self.mid_run = 0

    def is_due(self, ended: int) -> bool:
        """Say whether the next kill is due after `ended` jobs."""
        done = self.landed.total()
        return done < len(self._due) and ended >= self._due[done]

    def strike(self) -> bool:
        """Try the next kill; say whether it landed."""
        number = self.landed.total()
        kind = self._kinds[number]
        wants_agent = number % MID_RUN_SHARE == 0
        hosts = list(self._fleet.hosts)
        self._dice.shuffle(hosts)
        for host in hosts:
            working = self._fleet.agents_at_work(host)
            if wants_agent and not working:
                continue
            if getattr(self, f"_kill_{kind}")(host):
                self.landed[kind] += 1
                self.mid_run += bool(working)
                if self.landed.total() == len(self._due):
                    self._fleet.all_killed.set()
                return True
        return False

    def _kill_listener(self, host: Host) -> bool:
        if host.process is None or host.process.poll() is not None:
            return False
        host.kill()
        time.sleep(self._dice.random())
        host.start()
        return True

    def _kill_run(self, host: Host) -> bool:
        for run in host.run_processes():
            try:
                run.kill()
                run.wait(30)
            except psutil.NoSuchProcess:
                continue
            return True
        return False

    def _kill_broker(self, _host: Host) -> bool:
        self._fleet.broker.kill()
        time.sleep(self._dice.random())
        self._fleet.broker.start()
        return True
