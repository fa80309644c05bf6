"""Which generations a sender signs with, and which it has left behind. Pure.

The newest always signs. An older one signs beside it as long as a host that the message is for has
keys of it and has not yet been seen to hold a newer one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from contracts.naming import host_audience, lane_audience
from dispatch.key_records import Granted


def generations_to_sign(
    usable: Iterable[int], grants: Sequence[Granted], aud: str, *, now: float
) -> list[int]:
    """Return those of the `usable` generations that sign for `aud` at `now`, newest first."""
    numbers = sorted(usable, reverse=True)
    return numbers[:1] + [
        number for number in numbers[1:] if hosts_behind(number, grants, now=now, aud=aud)
    ]


def hosts_behind(
    generation: int, grants: Sequence[Granted], *, now: float, aud: str | None = None
) -> list[str]:
    """Return the hosts, by name, that still need `generation`: they have keys of it, valid at
    `now`, and were not seen to hold newer ones. `aud` names whom a message is for; None is all."""
    return sorted(
        grant.host
        for grant in grants
        if grant.generation == generation
        and grant.is_valid_at(now)
        and (aud is None or _is_for(grant, aud))
        and not _holds_newer(grant, grants, now=now)
    )


def _is_for(grant: Granted, aud: str) -> bool:
    return aud == host_audience(grant.host) or aud in map(lane_audience, grant.lanes)


def _holds_newer(grant: Granted, grants: Sequence[Granted], *, now: float) -> bool:
    return any(
        other.host == grant.host
        and other.generation > grant.generation
        and other.heldAt is not None
        and other.is_valid_at(now)
        for other in grants
    )
