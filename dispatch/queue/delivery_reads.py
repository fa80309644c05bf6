"""The receipts that hosts left at the broker for copies of a job, read with bounds.

What is read here is text from anybody who reaches the broker; the caller verifies.
"""

from __future__ import annotations

from contracts import limits, naming
from dispatch.queue.bounded_reads import read_items
from dispatch.queue.fleet_queue import FleetQueue
from dispatch.queue.link import translated


def read_deliveries(queue: FleetQueue, job_id: str) -> list[str]:
    """Return what stands as receipts of a job, the newest first. Raises Unavailable."""
    key, most = naming.delivery_key(job_id), limits.DELIVERIES_KEPT_MAX
    with translated(queue.url):
        return read_items(queue.connection, key, most, max_bytes=limits.DELIVERY_MAX_BYTES)
