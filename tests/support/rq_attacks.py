"""What somebody who can write Redis puts there to make an RQ worker do something, and the stock RQ
worker as the control which shows that each of these really fires."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import redis

# sing_TAG fires under a tag, fail_TAG does too and then fails.
CANARY_MODULE = """
import os, time
def sing(*args, **kwargs):
    mark("fired")
def mark(tag):
    with open(os.environ["CANARY"], "a") as file:
        file.write(tag + "\\n")
def wait(*args, **kwargs):
    time.sleep(30)
def __getattr__(name):
    kind, _, tag = name.partition("_")
    if kind not in ("sing", "fail"):
        raise AttributeError(name)
    def tagged(*args, **kwargs):
        mark(tag)
        if kind == "fail":
            raise ValueError("on purpose")
    return tagged
"""

# The pickle of an object whose loading calls fd_canary.sing().
SINGING_PICKLE = b"cfd_canary\nsing\n(tR."
CREATED_AT = "2026-01-01T00:00:00.000000Z"

# One worker after the other, each for one queue, under limits: a control must not hurt the machine.
STOCK_WORKER = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
import redis
from rq import Queue, SimpleWorker, Worker
url, names, serializer, kind = sys.argv[1:5]
connection = redis.Redis.from_url(url)
worker_class = {"simple": SimpleWorker, "forking": Worker, "scheduling": SimpleWorker}[kind]
chosen = serializer or None
for name in names.split(","):
    worker = worker_class([Queue(name, connection=connection, serializer=chosen)],
                          connection=connection, serializer=chosen, name="stock-" + name)
    try:
        worker.work(burst=kind != "forking", with_scheduler=kind == "scheduling",
                    logging_level="INFO")
    except Exception as error:
        print("ended by", type(error).__name__, file=sys.stderr)
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
        return self.tags().total()

    def tags(self) -> Counter[str]:
        """Return how often it fired under each tag since `reset`."""
        path = self.folder / "canary"
        return Counter(path.read_text().splitlines() if path.exists() else ())

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
                file.write(self.path.lstrip("/") + "\n")
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


def pickle_call(function: str) -> bytes:
    """Return RQ's packed pickle of a call of a function."""
    return zlib.compress(pickle.dumps((function, None, (), {})))


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
    """Yield running stock RQ workers, one after the other for each of the queues that `queue` names
    with commas between; ended by its pid."""
    process = subprocess.Popen(
        [sys.executable, "-c", STOCK_WORKER, url, queue, serializer, kind],
        env={"PATH": os.environ["PATH"], **canary.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=30)


def run_stock_worker(
    canary: Canary, url: str, queue: str, *, serializer: str = "json", kind: str = "simple"
) -> str:
    """Let stock RQ workers empty the queues; they must end by themselves. Return their words."""
    return run_stock(canary, url, queue, serializer=serializer, kind=kind)[0]


def run_stock(
    canary: Canary, url: str, queue: str, *, serializer: str = "json", kind: str = "simple"
) -> tuple[str, str]:
    """Do that and return what was printed, and what was logged."""
    with stock_worker(canary, url, queue, serializer=serializer, kind=kind) as process:
        printed, logged = process.communicate(timeout=120)
    assert process.returncode == 0, logged[-3000:]
    return printed, logged


class Stock(Enum):
    """What a stock RQ worker does with a job whose hash carries the fields of an attack."""

    FIRES = auto()  # it runs what the fields name
    STOPS = auto()  # it ends, and the jobs behind this one stay where they are
    ENDS = auto()  # it breaks the job off that it runs
    SWELLS = auto()  # it takes hundreds of megabytes
    SHOWS = auto()  # it writes them to its log or terminal as they are
    UNMOVED = auto()  # nothing: only that the fields are not signed speaks against it


@dataclass(frozen=True)
class FieldAttack:
    """Fields that the attacker adds to the hash of any job. Its name is its canary's tag."""

    name: str
    stock: Stock
    fields: Callable[[Canary], dict[str, Any]]
    function: str = "time.time"  # what the control's job calls
    serializer: str = "json"
    least: int = 1  # how often the control fires at least
    needs_success: bool = False  # an honest job has to complete for it

    def __str__(self) -> str:
        return self.name


def _constant(**fields: Any) -> Callable[[Canary], dict[str, Any]]:
    return lambda _canary: fields


def _webhook(canary: Canary) -> dict[str, Any]:
    hooks = [
        {"url": f"{canary.url}webhook", "job_status": status} for status in ("finished", "failed")
    ]
    return {"webhooks": json.dumps(hooks)}


def bomb(megabytes: int) -> bytes:
    """Return packed spaces: a thousandth of what they unpack to."""
    packer = zlib.compressobj(9)
    return b"".join(packer.compress(b" " * 1_000_000) for _ in range(megabytes)) + packer.flush()


def singing_pickle(tag: str) -> bytes:
    """Return the pickle of an object whose loading fires the canary under `tag`."""
    return f"cfd_canary\nsing_{tag}\n(tR.".encode()


ESCAPES = "\x1b]0;owned\x07\x1b[2J\u202e"


def _stops(name: str, **fields: Any) -> FieldAttack:
    return FieldAttack(name, Stock.STOPS, _constant(**fields))


def _leaves_unmoved(name: str, **fields: Any) -> FieldAttack:
    return FieldAttack(name, Stock.UNMOVED, _constant(**fields), f"fd_canary.sing_{name}")


FIELD_ATTACKS = (
    FieldAttack(
        "success_callback",
        Stock.FIRES,
        _constant(success_callback_name="fd_canary.sing_success_callback"),
        needs_success=True,
    ),
    FieldAttack(
        "failure_callback",
        Stock.FIRES,
        _constant(failure_callback_name="fd_canary.sing_failure_callback"),
        "fd_canary.fail_quietly",
    ),
    FieldAttack("webhook", Stock.FIRES, _webhook, needs_success=True),
    FieldAttack(
        "repeats",
        Stock.FIRES,
        _constant(repeats_left="3", repeat_intervals="[0]"),
        "fd_canary.sing_repeats",
        least=2,
        needs_success=True,
    ),
    FieldAttack(
        "retries", Stock.FIRES, _constant(retries_left="3"), "fd_canary.fail_retries", least=2
    ),
    FieldAttack(
        "pickle_in_meta",
        Stock.FIRES,
        _constant(meta=singing_pickle("pickle_in_meta")),
        serializer="",
    ),
    FieldAttack(
        "pickle_in_result",
        Stock.FIRES,
        _constant(result=singing_pickle("pickle_in_result")),
        serializer="",
    ),
    _stops("created_at", created_at="no date at all"),
    _stops("enqueued_at", enqueued_at="no date at all"),
    _stops("last_heartbeat", last_heartbeat="yesterday"),
    _stops("timeout", timeout="never"),
    _stops("status", status="unheard of"),
    _stops("dependency_ids", dependency_ids="{"),
    _stops("result_ttl", result_ttl="x"),
    _stops("failure_ttl", failure_ttl="x"),
    _stops("ttl", ttl="x"),
    _stops("retries_left", retries_left="x"),
    _stops("repeat_intervals", repeat_intervals="{"),
    _stops("callback_timeout", success_callback_timeout="x"),
    _stops("name_of_no_text", success_callback_name=b"\xff\xfe"),
    _stops("exc_info", exc_info=b"\xff\xfe"),
    FieldAttack("short_timeout", Stock.ENDS, _constant(timeout="1"), "fd_canary.wait"),
    FieldAttack("bomb_in_exc_info", Stock.SWELLS, _constant(exc_info=bomb(500))),
    FieldAttack("escapes_in_description", Stock.SHOWS, _constant(description=ESCAPES)),
    _leaves_unmoved("worker_name", worker_name="nobody"),
    _leaves_unmoved("origin", origin="elsewhere"),
    _leaves_unmoved("group_id", group_id="a group"),
    _leaves_unmoved("no_result_ttl", result_ttl="0"),
    _leaves_unmoved("malformed_webhooks", webhooks="{"),
    _leaves_unmoved("foreign_exc_info", exc_info="it failed long ago"),
)
