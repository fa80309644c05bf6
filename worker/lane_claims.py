"""Whose a job of a lane is: the claim in Redis, and giving it back.

The claim keeps two honest hosts from starting one job; it protects against nobody who writes
Redis (the journal of each host does). What hosts say in here is shown, cut and cleaned, and never
decides more than which host looks next.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from redis import Redis

from contracts import limits, naming
from contracts.clock import Clock
from contracts.ids import is_name

_RELEASE: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""
_REASON_MAX_CHARS: Final = 200
_HOSTS_MAX: Final = 500
_HEARTBEAT_MAX_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one host will not do a job, as that host says it."""

    host: str
    reason: str


class LaneClaims:
    """The claims of one host. Every method may raise Redis's errors."""

    def __init__(self, connection: Redis, host: str, clock: Clock) -> None:
        self._redis: Any = connection  # redis types every answer as sync or awaitable
        self._host = host
        self._clock = clock

    def claim(self, job_id: str, *, exp: int) -> str | None:
        """Claim a job of a lane; return None when it is ours, else the host that has it."""
        key = naming.claim_key(job_id)
        life_s = max(1, int(exp - self._clock.wall()) + 2 * limits.SKEW_S)
        if self._redis.set(key, self._host, nx=True, ex=life_s):
            return None
        holder = _text(self._redis.get(key) or b"")
        return None if holder == self._host else holder or "another host"

    def release(self, job_id: str) -> None:
        """Give the claim back if it is ours."""
        self._redis.eval(_RELEASE, 1, naming.claim_key(job_id), self._host)

    def refuse(self, job_id: str, reason: str) -> None:
        """Note that this host will not do the job, and why."""
        key = naming.refusals_key(job_id)
        with self._redis.pipeline(transaction=True) as pipeline:
            pipeline.hset(key, self._host, reason[:_REASON_MAX_CHARS])
            pipeline.expire(key, limits.RESULT_TTL_S)
            pipeline.execute()

    def refusals(self, job_id: str) -> tuple[Refusal, ...]:
        """Return what each host said that refused, by name."""
        found = self._redis.hgetall(naming.refusals_key(job_id))
        named = {_text(host): _text(reason) for host, reason in list(found.items())[:_HOSTS_MAX]}
        return tuple(Refusal(host, named[host]) for host in sorted(named) if is_name(host))

    def others_alive(self, lane: str) -> frozenset[str]:
        """Return the other hosts that serve `lane` and whose heart beats."""
        names = [_text(name) for name in self._redis.zrevrange(naming.hosts_index(), 0, _HOSTS_MAX)]
        others = [name for name in names if is_name(name) and name != self._host]
        return frozenset(name for name in others if lane in self._lanes_of(name))

    def _lanes_of(self, host: str) -> list[str]:
        key = naming.host_key(host)
        if not 0 < self._redis.strlen(key) <= _HEARTBEAT_MAX_BYTES:
            return []
        try:
            beat = json.loads(self._redis.get(key) or b"{}")
        except (ValueError, RecursionError):
            return []
        lanes = beat.get("lanes") if isinstance(beat, dict) else None
        return lanes if isinstance(lanes, list) else []


def _text(data: bytes) -> str:
    """Return what another host wrote as one printable line."""
    text = data.decode("utf-8", "replace")[:_REASON_MAX_CHARS]
    return "".join(character if character.isprintable() else "?" for character in text)
