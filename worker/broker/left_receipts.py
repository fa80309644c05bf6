"""Receipts of a host left at the broker for a job's sender: signed, bounded, and soon gone."""

from __future__ import annotations

from typing import Any

from redis import Redis

from contracts import limits, naming
from dispatch.queue.bounded_reads import overwriting


def leave_receipt(connection: Redis, job_id: str, receipt: str) -> None:
    """Leave one receipt beside the earlier ones of the same job, the newest first; raises Redis's
    errors."""
    redis: Any = connection  # redis types every answer as sync or awaitable
    key = naming.delivery_key(job_id)

    def write() -> None:
        with redis.pipeline(transaction=True) as pipeline:
            pipeline.lpush(key, receipt)
            pipeline.ltrim(key, 0, limits.DELIVERIES_KEPT_MAX - 1)
            pipeline.expire(key, limits.DELIVERY_TTL_S)
            pipeline.execute()

    overwriting(redis, key, write)
