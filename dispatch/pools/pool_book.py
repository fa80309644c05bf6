"""The pools for people: set, look at, remove, open again.

Owns the records that stand in Redis beside the bookings. What somebody else wrote there is shown
cut and cleaned, or left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import redis

from contracts import limits, naming
from contracts.errors import InvalidRequest, Problem
from dispatch.pools.ledger import pool_keys
from dispatch.pools.limit import Pool, PoolLimit, Unit, read_limit, read_pool
from dispatch.pools.scripts import LOOK
from dispatch.queue.link import translated
from validation.inert import one_line

_POOLS_MAX: Final = 1_000
_WHY_MAX_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class LimitUse:
    """A limit and what is used of it now; `reserved` is the part of runs that go on."""

    limit: PoolLimit
    used: int
    reserved: int


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool as it stands now. `closed_until` is Unix seconds, None for an open one."""

    pool: Pool
    limits: tuple[LimitUse, ...]
    closed_until: float | None
    closed_why: str


class PoolBook:
    """The pools at one broker. Every method may raise Unavailable or CouldNotCheck."""

    def __init__(self, connection: redis.Redis, url: str) -> None:
        """`url` stands in messages, masked."""
        self._redis: Any = connection  # redis types every answer as sync or awaitable
        self._url = url

    def pools(self) -> tuple[Pool, ...]:
        """Return the pools that have a limit or were closed, by name."""
        with translated(self._url):
            found = islice(self._redis.sscan_iter(naming.governor_pools()), _POOLS_MAX)
            names = sorted(item.decode("utf-8", "replace") for item in found)
        return tuple(pool for name in names if (pool := read_pool(name)))

    def view(self, pool: Pool) -> PoolView:
        """Return how `pool` stands."""
        keys, bounds = pool_keys(pool), (limits.POOL_LIMITS_MAX, limits.POOL_BOOKINGS_MAX)
        with translated(self._url):
            _, until, why, rows = self._redis.eval(LOOK, len(keys), *keys, *bounds)
        uses = (_use(row) for row in rows)
        closed = float(until) / 1_000 if until.isdigit() else None
        return PoolView(
            pool,
            tuple(sorted((use for use in uses if use), key=lambda use: use.limit.window_s)),
            closed,
            one_line(why.decode("utf-8", "replace"), _WHY_MAX_CHARS) if closed else "",
        )

    def set_limit(self, pool: Pool, limit: PoolLimit) -> None:
        """Give `pool` a limit, in place of one of the same unit and window. Raises InvalidRequest
        when it has as many as it can have."""
        key = naming.governor_limits(pool.name)
        with translated(self._url):
            is_new = not self._redis.hexists(key, limit.field)
            if is_new and self._redis.hlen(key) >= limits.POOL_LIMITS_MAX:
                remedy = "fleet-dispatch governor remove one first"
                raise InvalidRequest([Problem("AGENT", "has as many limits as it can", remedy)])
            with self._redis.pipeline(transaction=True) as pipeline:
                pipeline.hset(key, limit.field, limit.value)
                pipeline.sadd(naming.governor_pools(), pool.name)
                pipeline.execute()

    def remove(self, pool: Pool, *, unit: Unit | None) -> int:
        """Remove the limits of `pool` in `unit` (None: all); return how many went. The bookings go
        with the last limit."""
        key = naming.governor_limits(pool.name)
        with translated(self._url):
            fields = [item.decode("utf-8", "replace") for item in self._redis.hkeys(key)]
            gone = [field for field in fields if _fits(field, unit)]
            with self._redis.pipeline(transaction=True) as pipeline:
                if gone:
                    pipeline.hdel(key, *gone)
                if len(gone) == len(fields):
                    pipeline.unlink(key, naming.governor_bookings(pool.name))
                    pipeline.srem(naming.governor_pools(), pool.name)
                pipeline.execute()
        return len(gone)

    def open(self, pool: Pool) -> bool:
        """Let a closed pool admit again; say whether it was closed."""
        with translated(self._url):
            return bool(self._redis.unlink(naming.governor_closed(pool.name)))


def _fits(field: str, unit: Unit | None) -> bool:
    limit = read_limit(field, "0:0")
    return unit is None or (limit is not None and limit.unit is unit)


def _use(row: list[bytes]) -> LimitUse | None:
    field, value, used, reserved = (part.decode("ascii", "replace") for part in row)
    limit = read_limit(field, value)
    return None if limit is None else LimitUse(limit, int(used), int(reserved))
