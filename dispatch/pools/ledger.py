"""The ledger of the pools: admitting, renewing, settling and closing, each in one step of Redis.

Redis's clock alone decides; a host's may be wrong by hours. What stands there is advice that the
fleet's own hosts follow: who writes to Redis can make them wait, or spend, and can start nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import redis

from contracts import limits, naming
from contracts.errors import CouldNotCheck
from dispatch.pools.limit import Pool, PoolLimit, Unit, amount_words, read_limit, span_words
from dispatch.pools.scripts import ADMIT, CLOSE, RENEW, SETTLE
from dispatch.queue.link import translated
from validation.inert import one_line

_WHY_MAX_CHARS: Final = 300
_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Booked:
    """A start that a pool has booked: when by Redis's clock, and what it set aside."""

    booking_id: str
    at_ms: int
    tokens: int
    micro: int


@dataclass(frozen=True, slots=True)
class Denied:
    """A start that a pool does not admit: why, and in how many seconds asking again may help; None
    when waiting does not help."""

    why: str
    wait_s: int | None


def pool_keys(pool: Pool) -> list[str]:
    """Return the keys of one pool, in the order of the scripts."""
    return [
        naming.governor_limits(pool.name),
        naming.governor_bookings(pool.name),
        naming.governor_closed(pool.name),
        naming.governor_pools(),
    ]


class Ledger:
    """The pools of the fleet at one broker. Every method may raise Unavailable or CouldNotCheck."""

    def __init__(self, connection: redis.Redis, url: str) -> None:
        """`url` stands in messages, masked."""
        self._redis: Any = connection  # redis types every answer as sync or awaitable
        self._url = url

    def admit(self, pool: Pool, booking_id: str, lease_s: float) -> Booked | Denied | None:
        """Book a start, if the pool has room for it; None when the pool has no limits. The same id
        again is the same booking, with a new lease."""
        answer = self._run(ADMIT, pool, booking_id, _ms(lease_s))
        kind = _text(answer[0]) if answer else ""
        if kind == "free":
            return None
        if kind == "in":
            return Booked(booking_id, *(_number(part) for part in answer[1:4]))
        if kind == "closed":
            why = one_line(_text(answer[2]), _WHY_MAX_CHARS)
            return Denied(f"closed by a limit that an agent reported ({why})", _wait(answer[1]))
        return _full(answer[1:])

    def renew(self, pool: Pool, booked: Booked, lease_s: float) -> None:
        """Keep what `booked` set aside for another `lease_s` seconds."""
        numbers = (_ms(lease_s), booked.at_ms, booked.tokens, booked.micro)
        self._run(RENEW, pool, booked.booking_id, *numbers)

    def settle(self, pool: Pool, booked: Booked, *, runs: int, tokens: int, micro: int) -> None:
        """Put what a start came to in place of what was set aside; twice counts once."""
        self._run(SETTLE, pool, booked.booking_id, booked.at_ms, runs, tokens, micro)

    def close(self, pool: Pool, *, until: int | None, after_s: int | None, why: str) -> int | None:
        """Let the pool admit nothing until `until` (Unix seconds), else for `after_s`; a week at
        the most. Returns when it ends (Unix seconds), None when that is over already."""
        if until is None and after_s is None:
            return None
        ends = "" if until is None else str(until * _MS)
        text = one_line(why, _WHY_MAX_CHARS)
        after, longest = _ms(after_s or 0), _ms(limits.POOL_CLOSED_MAX_S)
        answer = self._run(CLOSE, pool, ends, after, longest, text, pool.name)
        return _number(answer) // _MS or None

    def _run(self, script: str, pool: Pool, *arguments: str | int) -> Any:
        # Sent whole each time: a role then needs no right to load scripts.
        keys, bounds = pool_keys(pool), (limits.POOL_LIMITS_MAX, limits.POOL_BOOKINGS_MAX)
        with translated(self._url):
            return self._redis.eval(script, len(keys), *keys, *bounds, *arguments)


def _full(parts: Sequence[object]) -> Denied:
    field, used, cap = (_text(part) for part in parts[1:4])
    limit = read_limit(field, f"{_number(cap)}:0")
    if limit is None:
        raise CouldNotCheck("the broker's answer about a pool is none of ours")
    wait = _number(parts[0])
    return Denied(
        f"{_used_words(limit, _number(used))} of {amount_words(limit.unit, limit.cap)} "
        f"in {span_words(limit.window_s)} are taken",
        None if wait < 0 else _wait(parts[0]),
    )


def _used_words(limit: PoolLimit, used: int) -> str:
    return amount_words(limit.unit, used) if limit.unit is Unit.DOLLARS else str(used)


def _wait(milliseconds: object) -> int:
    """Return whole seconds, rounded up: who comes back then finds the place free."""
    return -(-_number(milliseconds) // _MS)


def _ms(seconds: float) -> int:
    return int(seconds * _MS)


def _text(part: object) -> str:
    return part.decode("utf-8", "replace") if isinstance(part, bytes) else str(part)


def _number(part: object) -> int:
    try:
        return int(_text(cast("Any", part)))
    except ValueError as error:
        raise CouldNotCheck("the broker's answer about a pool is none of ours") from error
