"""What a signed job costs its sender, beside RQ's own `enqueue` of the same bytes.

Ours as shipped: checked, routed, signed, in the sender's durable record, queued. RQ's as it comes
from its documentation, with the job's payload as its one argument. One broker, one connection each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from redis import Redis
from rq import Queue

from dispatch.client import FleetClient
from tests.bench.harness import NOT_MEASURED, Row, interleave, place, timed
from tests.bench.words import task_of
from tests.dispatch.desk import Desk
from tests.support.broker import running_broker

_JOB = "tests.bench.rq_jobs.nothing"
_LANE, _HOST = "A", "GAMING"


def rows(quick: bool) -> Iterator[Row]:
    """Yield one at a time, and many in one call."""
    payload = {"agent": "codex", "task": task_of(5_000), "repo": "/srv/app", "ticket": "T-1"}
    with place() as folder, running_broker(folder / "broker") as broker:
        desk = Desk(folder / "alice", broker)
        desk.enrol(_HOST, _LANE)
        desk.beat(_HOST, _LANE, seconds=600)  # its host lives, as a rule
        with desk.client() as client, broker.client() as redis:
            yield _one(client, redis, payload, rounds=100 if quick else 400)
            yield _bulk(client, redis, payload, *((200, 3) if quick else (1_000, 7)))


def _one(client: FleetClient, redis: Redis, payload: dict[str, Any], rounds: int) -> Row:
    queue, text = Queue("plain", connection=redis), json.dumps(payload)

    def ours() -> object:
        return client.enqueue(payload, lane=_LANE, targets=[_HOST])

    def plain() -> object:
        return queue.enqueue(_JOB, text)

    for act in (ours, plain) * 5:
        act()
    a, b = interleave(lambda: timed(ours), lambda: timed(plain), rounds=rounds)
    return Row("signed enqueue of one job, 5 KB", "RQ `enqueue`", 1.1, a, b)


def _bulk(
    client: FleetClient, redis: Redis, payload: dict[str, Any], jobs: int, rounds: int
) -> Row:
    work, baseline = f"signed enqueue of {jobs:,} jobs, 5 KB each", "RQ `enqueue_many`"
    many: Callable[..., object] | None = getattr(client, "enqueue_many", None)
    if many is None:
        return Row(work, baseline, 1.1, NOT_MEASURED, NOT_MEASURED, note="not built")
    queue = Queue("bulk", connection=redis)
    payloads = [{**payload, "ticket": f"T-{number}"} for number in range(jobs)]

    def ours() -> object:
        return many(payloads, lane=_LANE, targets=[_HOST])

    def plain() -> object:
        return queue.enqueue_many(
            [Queue.prepare_data(_JOB, (json.dumps(item),)) for item in payloads]
        )

    for act in (ours, plain):
        act()
    a, b = interleave(lambda: timed(ours), lambda: timed(plain), rounds=rounds)
    return Row(work, baseline, 1.1, a, b)
