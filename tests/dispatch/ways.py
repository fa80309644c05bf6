"""Steps on a job's way through the broker, made by hand as a host makes them."""

from __future__ import annotations

from contracts import naming
from dispatch.queue import Place
from tests.dispatch.desk import Desk

QUEUE = "fd.lane.A@PC1"


def drop(desk: Desk, *keys: str) -> None:
    with desk.broker.client() as redis:
        redis.delete(*keys)


def take(desk: Desk, queue: str, host: str) -> None:
    """Take the next job of a queue as a listener does, up to its claim."""
    with desk.broker.client() as redis:
        redis.lmove(naming.rq_list(queue), naming.taken_list(queue, host), "LEFT", "RIGHT")


def claim(desk: Desk, job_id: str, host: str, queue: str = QUEUE) -> None:
    with desk.broker.client() as redis:
        redis.set(naming.claim_key(job_id), f"{host}/instance")
        redis.delete(naming.taken_list(queue, host), naming.rq_list(queue))
        redis.hset(naming.job_key(job_id), mapping={"state": "started", "host": host})


def where(desk: Desk, job_id: str, queue: str = QUEUE) -> tuple[Place, str]:
    found = desk.queue().whereabouts(job_id, queue, ["PC1", "PC2"])
    return found.place, found.host
