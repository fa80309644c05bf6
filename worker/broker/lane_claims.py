"""Whose a job is: the claim in Redis, giving it back, and who of a lane has refused it.

The claim keeps two honest hosts from starting one job; it protects against nobody who writes
Redis (the journal of each host does). What hosts say in here is shown, cut and cleaned, and never
decides more than which host looks next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from redis import Redis
from redis.exceptions import ResponseError

from contracts import limits, naming
from contracts.clock import Clock
from contracts.ids import is_name
from dispatch.queue.bounded_reads import (
    NAME_MAX_BYTES,
    is_wrong_type,
    overwriting,
    read_newest,
    read_small_hash,
)
from validation.inert import one_line
from worker.broker.beats import read_beat

_RELEASE: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""
# The ordinary case in one round trip: nobody took the job back and it is claimed now (1), or was by
# whoever is named. 0 where it takes a closer look: a cancel, or a claim of another type. Nothing is
# claimed beside a cancel: that is taken in first. Its key is no KEYS: those of a script have to be
# writable, and a host only reads cancels.
_CLAIM_UNLESS_CANCELLED: Final = """
local cancel = redis.pcall('GETRANGE', ARGV[4], 0, 0)
if type(cancel) == 'string' and #cancel > 0 then return 0 end
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2]) then return 1 end
local holder = redis.pcall('GETRANGE', KEYS[1], 0, tonumber(ARGV[3]))
if type(holder) == 'table' then return 0 end
return holder
"""
_REASON_MAX_CHARS: Final = 200
_HOSTS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one host will not do a job, as that host says it."""

    host: str
    reason: str


class LaneClaims:
    """The claims of one host. Every method may raise Redis's errors."""

    def __init__(self, connection: Redis, host: str, clock: Clock, *, instance: str) -> None:
        """`instance` tells this host's journal from that of a namesake, set up by mistake: what
        the other one claimed is not ours to start."""
        self._redis: Any = connection  # redis types every answer as sync or awaitable
        self._host = host
        self._mark = f"{host}/{instance}"
        self._clock = clock

    def claim(self, job_id: str, *, exp: int) -> str | None:
        """Claim a job; return None when it is ours, else the host that has it."""
        key = naming.claim_key(job_id)
        if self._redis.set(key, self._mark, nx=True, ex=self._life_s(exp)):
            return None
        try:
            holder = _text(self._redis.getrange(key, 0, 2 * NAME_MAX_BYTES))
        except ResponseError as error:
            if not is_wrong_type(error):
                raise
            self._redis.unlink(key)  # no host wrote that
            return self.claim(job_id, exp=exp)
        return self._other(holder)

    def take(self, job_id: str, *, exp: int, look_for_cancel: Callable[[str], None]) -> str | None:
        """Claim a job, see `claim`, after `look_for_cancel` where a cancel of it waits: that may
        raise, and nothing is claimed then."""
        key, cancel = naming.claim_key(job_id), naming.cancel_key(job_id)
        words = (self._mark, str(self._life_s(exp)), str(2 * NAME_MAX_BYTES), cancel)
        told = self._redis.eval(_CLAIM_UNLESS_CANCELLED, 1, key, *words)
        if told == 1:
            return None
        if isinstance(told, bytes):
            return self._other(_text(told))
        look_for_cancel(job_id)
        return self.claim(job_id, exp=exp)

    def release(self, job_id: str) -> None:
        """Give the claim back if it is ours."""
        self._redis.eval(_RELEASE, 1, naming.claim_key(job_id), self._mark)

    def refuse(self, job_id: str, reason: str) -> None:
        """Note that this host will not do the job, and why."""
        key = naming.refusals_key(job_id)

        def write() -> None:
            if self._redis.hlen(key) > _HOSTS_MAX:  # no fleet of ours: begin anew
                self._redis.unlink(key)
            with self._redis.pipeline(transaction=True) as pipeline:
                pipeline.hset(key, self._host, reason[:_REASON_MAX_CHARS])
                pipeline.expire(key, limits.RESULT_TTL_S)
                pipeline.execute()

        overwriting(self._redis, key, write)

    def refusals(self, job_id: str) -> tuple[Refusal, ...]:
        """Return what each host said that refused, by name."""
        found = read_small_hash(
            self._redis,
            naming.refusals_key(job_id),
            max_fields=2 * _HOSTS_MAX,
            max_bytes=4 * _REASON_MAX_CHARS,
        )
        return tuple(Refusal(host, _plain(found[host])) for host in sorted(found) if is_name(host))

    def undecided(self, job_id: str, lane: str) -> frozenset[str]:
        """Return the other living hosts of `lane` that have not refused the job."""
        return self.others_alive(lane) - {item.host for item in self.refusals(job_id)}

    def others_alive(self, lane: str) -> frozenset[str]:
        """Return the other hosts that serve `lane` and whose heart beats."""
        names = [name for name, _ in read_newest(self._redis, naming.hosts_index(), _HOSTS_MAX)]
        others = [name for name in names if is_name(name) and name != self._host]
        return frozenset(name for name in others if lane in self._lanes_of(name))

    def _life_s(self, exp: int) -> int:
        return max(1, int(exp - self._clock.wall()) + 2 * limits.SKEW_S)

    def _other(self, holder: str) -> str | None:
        """Return the host in a claim, None when that is ours."""
        return None if holder == self._mark else holder.partition("/")[0] or "another host"

    def _lanes_of(self, host: str) -> list[str]:
        lanes = read_beat(self._redis, host).get("lanes")
        return lanes if isinstance(lanes, list) else []


class NoLaneClaims(LaneClaims):
    """The claims of a host without a broker: whatever reaches it is its own to take."""

    def claim(self, job_id: str, *, exp: int) -> str | None:  # noqa: ARG002 - as the other one
        """Return None: nobody else can have it from here."""
        return None

    def release(self, job_id: str) -> None:
        """Do nothing: there is nobody to give it back to."""


def _text(data: bytes) -> str:
    return _plain(data.decode("utf-8", "replace"))


def _plain(text: str) -> str:
    """Return what another host wrote as one printable line."""
    return one_line(text, _REASON_MAX_CHARS)
