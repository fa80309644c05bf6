"""Which queues a host takes from."""

from __future__ import annotations

from collections.abc import Iterable

from contracts import naming


def queues_served(host: str, lanes: Iterable[str]) -> list[str]:
    """Return for each of `lanes` the queue of `host` alone, then the one of the whole lane."""
    pairs = ((naming.host_queue(lane, host), naming.lane_queue(lane)) for lane in lanes)
    return [name for pair in pairs for name in pair]
