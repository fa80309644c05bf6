"""Room on a disk, asked before anything is started: a run that fills a disk harms every other one.

Reads only. What cannot be measured is no reason to refuse.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from contracts.errors import RepositoryRefused


def free_bytes(place: str) -> int | None:
    """Return the free bytes on the volume of `place`, or of the nearest folder above it that is
    there; None when they cannot be read."""
    folder = os.path.abspath(place)
    while not os.path.exists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def refuse_below_floor(places: Mapping[str, str], floor_bytes: int) -> None:
    """Raise RepositoryRefused (`disk_floor`) when a volume has fewer free bytes than the host asks
    for. `places` maps what stands there, for people, to a path."""
    for what, place in places.items():
        free = free_bytes(place) if floor_bytes else None
        if free is not None and free < floor_bytes:
            raise RepositoryRefused(
                f"the disk of the {what} has {free} free bytes, fewer than {floor_bytes}: {place}",
                code="disk_floor",
                remedy="make room: fleet-dispatch worktrees gc; or lower disk_floor_bytes under "
                "[worktrees]",
            )
