"""Both sides of the queue's rows on one broker: our listener and client, stock RQ and its worker.

Each side is what its users run: `fleet-dispatch listen` as a process of its own with a durable
journal and the shipped sandbox setting, and the program `rq worker` with RQ's own defaults.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis
from rq import Queue

from contracts import naming
from dispatch.client import FleetClient
from dispatch.settings import load_settings
from tests.support.broker import Broker, running_broker
from tests.support.hosts import LANE, SENDER, Host, listening_host
from tests.support.source_tree import PROJECT

PATIENCE_S = 120.0


@dataclass
class Ours:
    """Our side: a listener that is idle, and a client."""

    host: Host
    client: FleetClient
    redis: redis.Redis

    def ping(self) -> str:
        """Send one ping and return its job's id."""
        (job,) = self.client.enqueue({}, kind="ping", lane=LANE, targets=[self.host.name])
        return job.job_id

    def stored(self, job_ids: Sequence[str]) -> int:
        """Return how many of these jobs have their result on the broker."""
        return int(self.redis.exists(*(naming.result_key(job_id) for job_id in job_ids)))


@dataclass
class Stock:
    """RQ's side: its worker, which is idle, and a queue."""

    worker: subprocess.Popen[bytes]
    queue: Queue

    def finished(self) -> int:
        """Return how many jobs have ended well."""
        return int(self.queue.finished_job_registry.count)


@contextmanager
def our_side(folder: Path, broker: Broker) -> Iterator[Ours]:
    """Yield a listener that listens on `broker`, and its sender's client."""
    folder.mkdir()
    with listening_host(folder, broker, extra={"FLEET_DISPATCH_SANDBOX": "auto"}) as host:
        environ = {
            "FLEET_DISPATCH_HOME": str(host.sender.keys_dir.parent),
            "FLEET_DISPATCH_REDIS_URL": broker.url,
            "USER": SENDER,
        }
        settings = load_settings(environ=environ)
        with FleetClient.open(settings) as client, broker.client() as connection:
            yield Ours(host, client, connection)


@contextmanager
def stock_side(folder: Path, broker: Broker, name: str = "stock") -> Iterator[Stock]:
    """Yield RQ's own worker on a queue of its own; ended by its pid."""
    folder.mkdir()
    with broker.client() as connection, (folder / "worker.log").open("wb") as log:
        queue = Queue(name, connection=connection)
        program = str(Path(sys.executable).with_name("rq"))
        worker = subprocess.Popen(
            [program, "worker", "--url", broker.url, name],
            env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(PROJECT)},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            job = queue.enqueue("tests.bench.rq_jobs.stamp")
            until(lambda: job.return_value(refresh=True) is not None, "RQ's worker works")
            yield Stock(worker, queue)
        finally:
            worker.send_signal(signal.SIGCONT)
            worker.terminate()
            try:
                worker.wait(20)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()


@contextmanager
def both_sides(folder: Path) -> Iterator[tuple[Ours, Stock]]:
    """Yield both, on one broker with its append-only file on, as in production."""
    with (
        running_broker(folder / "broker") as broker,
        our_side(folder / "ours", broker) as ours,
        stock_side(folder / "stock", broker) as stock,
    ):
        yield ours, stock


@contextmanager
def suspended(pid: int) -> Iterator[None]:
    """Freeze a process for as long as the block lasts."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def until(claim: Callable[[], bool], what: str, every_s: float = 0.01) -> None:
    """Return when `claim()` holds, looked at every `every_s`; raise TimeoutError in the end."""
    give_up = time.monotonic() + PATIENCE_S
    while not claim():
        if time.monotonic() > give_up:
            raise TimeoutError(f"not within {PATIENCE_S:g} s: {what}")
        time.sleep(every_s)
