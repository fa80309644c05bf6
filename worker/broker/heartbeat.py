"""The heartbeat: what this host is and has, every 3 s, with a life of 10 s, for `hosts` to show.

Renews the listener's lease with the same beat. Unsigned and for people's eyes: a lane's hosts look
at it to tell whether anybody else could do a job, and nothing else depends on it.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from redis import Redis
from redis.exceptions import RedisError

from contracts import limits, naming
from contracts.clock import Clock
from contracts.errors import CouldNotCheck, Unavailable
from contracts.run_agent import CONTRACT_REVISION
from dispatch.own_version import own_version
from dispatch.queue.bounded_reads import overwriting
from worker.announcer import Say
from worker.broker.beats import read_beat

_INDEX_KEEPS_S: Final = 30 * 24 * 3_600  # a host that was silent for longer is no longer listed


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """What a beat says, beside the time."""

    host: str
    lanes: Sequence[str]
    slots: int
    free: Callable[[], int]
    jobs: Callable[[], Sequence[str]]  # what is in its hands: a broker may have lost its claims
    agents: Callable[[], dict[str, str]]
    instance: str  # of the journal: tells a namesake's beats from ours
    draining: Callable[[], bool] = lambda: False  # it takes no more jobs
    held: Callable[[], Sequence[str]] = tuple  # signed: which generation of whose keys it holds
    note: Callable[[], str] = lambda: ""  # what its owner should know


class Heartbeat:
    """The beats of one listener."""

    def __init__(
        self,
        connection: Redis,
        state: HostState,
        clock: Clock,
        say: Say,
        *,
        renew: Callable[[], None],
    ) -> None:
        """`renew` is called before each beat; the host's lease is renewed with it."""
        self._redis: Any = connection  # redis types every answer as sync or awaitable
        self._renew = renew
        self._state = state
        self._clock = clock
        self._say = say
        self._has_namesake = False

    def beat(self) -> None:
        """Write one beat. May raise Redis's errors."""
        self._look_for_a_namesake()
        state, now = self._state, self._clock.wall()
        text = json.dumps(
            {
                "host": state.host,
                "os": _system(),
                "lanes": list(state.lanes),
                "agents": state.agents(),
                "slots": state.slots,
                "free": state.free(),
                "jobs": list(state.jobs()),
                "pid": os.getpid(),
                "contractRevision": CONTRACT_REVISION,
                "version": own_version(),
                "instance": state.instance,
                "seenAt": int(now),
                "draining": state.draining(),
                "held": list(state.held()),
                "note": state.note(),
            }
        )
        index = naming.hosts_index()

        def write() -> None:
            with self._redis.pipeline(transaction=True) as pipeline:
                pipeline.set(naming.host_key(state.host), text, ex=limits.HEARTBEAT_TTL_S)
                pipeline.delete(naming.farewell_key(state.host))
                pipeline.zadd(index, {state.host: now})
                pipeline.zremrangebyscore(index, "-inf", now - _INDEX_KEEPS_S)
                pipeline.execute()

        overwriting(self._redis, index, write)

    def stop(self) -> None:
        """Take the beat away at an orderly end and leave a farewell, so that nobody takes this
        host for lost. Best effort: without it the host is shown as lost."""
        host, now = self._state.host, int(self._clock.wall())
        try:
            with self._redis.pipeline(transaction=True) as pipeline:
                pipeline.delete(naming.host_key(host))
                pipeline.set(naming.farewell_key(host), str(now), ex=_INDEX_KEEPS_S)
                pipeline.zadd(naming.hosts_index(), {host: now})
                pipeline.execute()
        except RedisError:
            return

    def run(self, stop: threading.Event) -> None:
        """Beat until `stop` is set, whatever the broker does."""
        while True:
            try:
                self._renew()
                self.beat()
            except (RedisError, Unavailable, CouldNotCheck):
                pass  # the next beat is 3 s away, and the intake has said that the broker is away
            if self._clock.wait(stop, limits.HEARTBEAT_EVERY_S):
                return

    def keep_lease(self, stop: threading.Event) -> None:
        """Renew the host's lease until `stop` is set and beat for nobody: there is no broker."""
        while True:
            with contextlib.suppress(Unavailable, CouldNotCheck):
                self._renew()
            if self._clock.wait(stop, limits.HEARTBEAT_EVERY_S):
                return

    def _look_for_a_namesake(self) -> None:
        """Say once when the last beat under our name was not ours: two machines share the name."""
        beat = read_beat(self._redis, self._state.host)
        other = beat.get("instance", self._state.instance) != self._state.instance
        if other and not self._has_namesake:
            remedy = "give one of them another name and grant"
            self._say("another_listener_has_this_name", host=self._state.host, remedy=remedy)
        self._has_namesake = other


def _system() -> str:
    return f"{platform.system()} {platform.machine()}"
