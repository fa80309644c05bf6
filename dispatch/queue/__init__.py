"""The queue: the only place on this side that imports redis and rq.

`FleetQueue` speaks the shapes of `contracts.naming` and knows nothing of keys; what it carries is
signed elsewhere and checked elsewhere. Its errors are the house's own. `AsyncBells` is loaded when
first named: no verb waits in asyncio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dispatch.queue.board import HostTrace
from dispatch.queue.control_box import TakenBack
from dispatch.queue.fleet_queue import FleetQueue, Pushed
from dispatch.queue.packed_jobs import Outgoing
from dispatch.queue.result_store import StoredAs
from dispatch.queue.whereabouts import Place, Whereabouts

if TYPE_CHECKING:
    from dispatch.queue.async_bells import AsyncBells

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


def __getattr__(name: str) -> Any:
    """Load the bells of asyncio when they are first named."""
    if name == "AsyncBells":
        from dispatch.queue.async_bells import AsyncBells

        return AsyncBells
    raise AttributeError(f"module 'dispatch.queue' has no attribute {name!r}")
