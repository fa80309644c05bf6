"""The queue: the only place on this side that imports redis and rq.

`FleetQueue` speaks the shapes of `contracts.naming` and knows nothing of keys; what it carries is
signed elsewhere and checked elsewhere. Its errors are the house's own.
"""

from __future__ import annotations

from dispatch.queue.async_bells import AsyncBells
from dispatch.queue.board import HostTrace
from dispatch.queue.control_box import TakenBack
from dispatch.queue.fleet_queue import FleetQueue, Outgoing, Pushed
from dispatch.queue.result_store import StoredAs
from dispatch.queue.whereabouts import Place, Whereabouts

__all__ = [
    "AsyncBells",
    "FleetQueue",
    "HostTrace",
    "Outgoing",
    "Place",
    "Pushed",
    "StoredAs",
    "TakenBack",
    "Whereabouts",
]
