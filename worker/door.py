"""The second door of a listener, where one is set up: what it needs, and the extra it comes in.

Imports nothing of HTTP before a door is asked for, so that a host without one needs no extra.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from contracts.clock import Clock
from contracts.errors import Refused
from worker.announcer import Say
from worker.broker.outbox import Outbox
from worker.controls import Controls
from worker.entry import RunEnvelope
from worker.journal.journal import Journal
from worker.receipts import Receipts
from worker.settings import HostSettings
from worker.slots import Slots


class Door(Protocol):
    """A door as the listener starts and ends it."""

    @property
    def url(self) -> str:
        """Return where it is."""
        ...

    def start(self) -> None:
        """Open it."""
        ...

    def close(self) -> None:
        """Close it; what is being answered has a few seconds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorPorts:
    """What stands behind a door."""

    entry: RunEnvelope
    slots: Slots
    journal: Journal
    outbox: Outbox
    receipts: Receipts
    controls: Controls
    is_draining: Callable[[], bool]
    clock: Clock
    say: Say


def build_door(settings: HostSettings, ports: DoorPorts) -> Door | None:
    """Return the bound door of this host, None where none is set up.

    Raises InvalidRequest for settings that make no door, Refused (`no_extra`) where the extra is
    not installed, and Unavailable when the address cannot be bound.
    """
    if not settings.http.bind:
        return None
    try:
        from worker.http.opening import open_door
    except ImportError as error:
        raise Refused(
            "the HTTP door needs starlette and uvicorn, which are not installed",
            code="no_extra",
            remedy="pip install 'fleet-dispatch[http]'",
        ) from error
    return open_door(settings, ports)
