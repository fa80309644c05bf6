"""What the watching process must know of a leader that is confined, or that confines another.

A value of the process seam; standard library alone. It says nothing about why.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """`spares_leader`: the leader is a wrapper that must not be asked to end, its program is.
    `tells_at`: which word of the wrapper's arguments is to be the number of a descriptor on which
    it says, where its program cannot, that its program ran (bubblewrap's --json-status-fd); 0: it
    says nothing. `sieve_at`: which word is to be the number of one from which it reads the filter
    of `_sieve` (--seccomp); 0: it reads none. `writable` and `readable`: the only paths below which
    Landlock lets the program write and read files, behind that filter too; None: Landlock is not
    used."""

    spares_leader: bool = False
    tells_at: int = 0
    sieve_at: int = 0
    writable: tuple[str, ...] | None = None
    readable: tuple[str, ...] = ()


NO_WALLS = Walls()
