"""What a client costs that waits for many jobs at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dispatch.async_client import AsyncFleetClient
from tests.bench.growth.growing import of_sizes
from tests.bench.harness import Row, Series, place
from tests.dispatch.desk import Desk
from tests.support.broker import Broker, running_broker

BOUND_S = 120
_OF = "jobs waited for"
_LOOK_S = 2.0


def rows(quick: bool) -> Iterator[Row]:
    """Yield connections, commands of the broker while nothing ends, and the cost of each result."""
    sizes = (2, 10, 20) if quick else (2, 20, 200)
    connections: dict[int, Series] = {}
    commands: dict[int, Series] = {}
    costs: dict[int, Series] = {}
    for size in sizes:
        with place() as folder, running_broker(folder / "broker") as broker:
            opened, idle, cost = asyncio.run(_wait_for(folder, broker, size))
        connections[size], commands[size], costs[size] = (
            Series((x,)) for x in (opened, idle, cost)
        )
    yield of_sizes("waiting: connections of the client", connections, of=_OF, unit="connections")
    yield of_sizes(
        "waiting: commands a second and job while nothing ends", commands, of=_OF, unit="commands"
    )
    yield of_sizes("waiting: cost of a result that comes", costs, of=_OF)


async def _wait_for(folder: Path, broker: Broker, size: int) -> tuple[float, float, float]:
    desk = Desk(folder / "alice", broker)
    desk.enrol("GAMING", "A")
    desk.beat("GAMING", "A", seconds=300)
    async with AsyncFleetClient.open(desk.settings) as client:
        payload = {"agent": "codex", "task": "t", "repo": "/srv/app", "ticket": "T-1"}
        jobs = []
        for _ in range(size):
            jobs += await client.enqueue(payload, lane="A", targets=["GAMING"])
        with broker.client() as redis:
            before = _clients(redis)
            waits = [asyncio.create_task(client.wait(job, timeout_s=100)) for job in jobs]
            await asyncio.sleep(_LOOK_S)  # the first looks are over
            opened = _clients(redis) - before
            told = redis.info("stats")["total_commands_processed"]
            await asyncio.sleep(_LOOK_S)
            idle = redis.info("stats")["total_commands_processed"] - told
        signed = [desk.sign_result(job.job_id, "GAMING") for job in jobs]
        queue = desk.queue()

        began = time.process_time()
        for job, envelope in zip(jobs, signed, strict=True):
            queue.store_result(job.job_id, envelope)
        await asyncio.gather(*waits)
        cost = time.process_time() - began
        queue.close()
    return float(opened + 1), idle / _LOOK_S / size, cost / size


def _clients(redis: Any) -> int:
    return int(redis.info("clients")["connected_clients"])
