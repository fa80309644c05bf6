"""Disks that are full at the end of a run: the reason behind many other errors, named.

A program that met a full disk reports whatever it made of it, or nothing. So the host looks itself,
once something went wrong or is over. Reads only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from contracts import limits
from contracts.errors import DiskFull, FleetError, Interrupted
from contracts.run_agent import Risk
from runagent.disk_floor import free_bytes
from runagent.ports import HostPorts, RunOrder

# Less than one result's own size: nothing that matters can be written there any more.
_FULL_BELOW_BYTES: Final = limits.RESULT_MAX_BYTES
_REMEDY: Final = "make room there: fleet-dispatch worktrees gc"


def volumes_of(order: RunOrder, ports: HostPorts) -> dict[str, str]:
    """Return a folder on each volume that a run writes to, by what stands there."""
    return {"worktrees": os.path.dirname(order.repo_on_host), "state folder": ports.runtime_dir}


def full_disks(places: Mapping[str, str]) -> tuple[str, ...]:
    """Return a sentence for each full disk. `places` maps what stands there to a path."""
    found = {what: free_bytes(place) for what, place in places.items()}
    return tuple(
        f"ENOSPC: no space left on the disk of the {what} ({places[what]})"
        for what, free in found.items()
        if free is not None and free < _FULL_BELOW_BYTES
    )


def risks_of_full_disks(places: Mapping[str, str]) -> tuple[Risk, ...]:
    """Return the risk `disk_full` for each full disk."""
    return tuple(
        Risk(code=DiskFull.kind, message=f"{words}; something of this run may be missing")
        for words in full_disks(places)
    )


def named_by_disk(error: FleetError, places: Mapping[str, str]) -> FleetError:
    """Return `error`, or the full disk behind it. A stop by a person stays one."""
    words = full_disks(places)
    if not words or isinstance(error, Interrupted | DiskFull):
        return error
    full = DiskFull(f"{'; '.join(words)}: {error.message}", remedy=_REMEDY)
    full.__cause__ = error
    return full
