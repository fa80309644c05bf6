"""What somebody who can write Redis puts there to make an RQ worker do something, and the stock RQ
worker as the control which shows that each of these really fires."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import redis

CANARY_MODULE = """
import os, time
def sing(*args, **kwargs):
    with open(os.environ["CANARY"], "a") as file:
        file.write("fired\\n")
def fail(*args, **kwargs):
    raise ValueError("on purpose")
def sing_and_fail(*args, **kwargs):
    sing()
    fail()
def wait(*args, **kwargs):
    time.sleep(30)
"""

# The pickle of an object whose loading calls fd_canary.sing().
SINGING_PICKLE = b"cfd_canary\nsing\n(tR."
CREATED_AT = "2026-01-01T00:00:00.000000Z"

STOCK_WORKER = """
import sys, redis
from rq import Queue, SimpleWorker, Worker
url, name, serializer, kind = sys.argv[1:5]
connection = redis.Redis.from_url(url)
worker_class = {"simple": SimpleWorker, "forking": Worker}[kind]
chosen = serializer or None
worker = worker_class([Queue(name, connection=connection, serializer=chosen)],
                      connection=connection, serializer=chosen, name="stock-" + name)
worker.work(burst=kind == "simple")
import resource
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@dataclass
class Canary:
    """A place that shows whether foreign code ran: a module on the path of every worker."""

    folder: Path
    url: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    def fired(self) -> int:
        """Return how many times it fired since `reset`."""
        path = self.folder / "canary"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def reset(self) -> None:
        (self.folder / "canary").unlink(missing_ok=True)


@contextmanager
def canary_in(folder: Path) -> Iterator[Canary]:
    """Yield a canary whose URL fires it too."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fd_canary.py").write_text(CANARY_MODULE)
    canary = Canary(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with (folder / "canary").open("a") as file:
                file.write("fired\n")
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    canary.url = f"http://127.0.0.1:{server.server_port}/"
    canary.environment = {
        "CANARY": str(folder / "canary"),
        "PYTHONPATH": os.pathsep.join([str(folder), *(path for path in sys.path if path)]),
    }
    try:
        yield canary
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def json_call(function: str, *arguments: Any) -> bytes:
    """Return RQ's packed JSON call of a function."""
    return zlib.compress(json.dumps([function, None, list(arguments), {}]).encode())


def write_job(
    connection: redis.Redis, queue: str, job_id: str, fields: dict[str, Any], *, push: bool = True
) -> None:
    """Write an RQ job's hash by hand, and its id into the queue."""
    honest = {"created_at": CREATED_AT, "origin": queue, "status": "queued", "timeout": "30"}
    connection.hset(f"rq:job:{job_id}", mapping={**honest, **fields})
    connection.sadd("rq:queues", f"rq:queue:{queue}")
    if push:
        connection.rpush(f"rq:queue:{queue}", job_id)


@contextmanager
def stock_worker(
    canary: Canary, url: str, queue: str, *, serializer: str = "json", kind: str = "simple"
) -> Iterator[subprocess.Popen[str]]:
    """Yield a running stock RQ worker; ended by its pid."""
    process = subprocess.Popen(
        [sys.executable, "-c", STOCK_WORKER, url, queue, serializer, kind],
        env={"PATH": os.environ["PATH"], **canary.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=30)


def run_stock_worker(canary: Canary, url: str, queue: str, *, serializer: str = "json") -> str:
    """Let a stock RQ worker empty `queue`; it must end by itself. Return what it printed."""
    with stock_worker(canary, url, queue, serializer=serializer) as process:
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return printed


@dataclass(frozen=True)
class FieldAttack:
    """Fields that the attacker adds to the hash of any job."""

    name: str
    fields: Callable[[Canary], dict[str, Any]]
    function: str = "time.time"  # what the control's job calls
    serializer: str = "json"
    least: int = 1  # how often the control fires at least

    def __str__(self) -> str:
        return self.name


def _webhook(canary: Canary) -> dict[str, Any]:
    hooks = [{"url": canary.url, "job_status": status} for status in ("finished", "failed")]
    return {"webhooks": json.dumps(hooks)}


FIELD_ATTACKS = (
    FieldAttack("success callback", lambda _: {"success_callback_name": "fd_canary.sing"}),
    FieldAttack(
        "failure callback", lambda _: {"failure_callback_name": "fd_canary.sing"}, "fd_canary.fail"
    ),
    FieldAttack("webhook", _webhook),
    FieldAttack(
        "repeats",
        lambda _: {"repeats_left": "3", "repeat_intervals": "[0]"},
        "fd_canary.sing",
        least=2,
    ),
    FieldAttack(
        "retries",
        lambda _: {"retries_left": "3"},
        "fd_canary.sing_and_fail",
        least=2,
    ),
    FieldAttack("pickle in meta", lambda _: {"meta": SINGING_PICKLE}, serializer=""),
)
