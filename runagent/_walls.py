"""What the watching process must know of a leader that is confined, or that confines another.

A value of the process seam; standard library alone. It says nothing about why.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """`spares_leader`: the leader is a wrapper that must not be asked to end, its program is.
    `writable` and `readable`: the only paths below which Landlock lets the program write and read
    files; None: Landlock is not used."""

    spares_leader: bool = False
    writable: tuple[str, ...] | None = None
    readable: tuple[str, ...] = ()


NO_WALLS = Walls()
