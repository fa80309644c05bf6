"""The sender's side: keys, queue, routing, results, client and the verbs over them.

`FleetClient` and `AsyncFleetClient` are the way in for programs. They are loaded when first named,
so that the command line can print its help without Redis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dispatch.async_client import AsyncFleetClient
    from dispatch.client import FleetClient

__all__ = ["AsyncFleetClient", "FleetClient"]


def __getattr__(name: str) -> Any:
    """Load a client class when it is first named."""
    if name == "FleetClient":
        from dispatch.client import FleetClient

        return FleetClient
    if name == "AsyncFleetClient":
        from dispatch.async_client import AsyncFleetClient

        return AsyncFleetClient
    raise AttributeError(f"module 'dispatch' has no attribute {name!r}")
