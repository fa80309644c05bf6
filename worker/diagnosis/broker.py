"""Is the broker there, is it set up as ops/redis says, and do its clock and ours agree.

Reads INFO, TIME and CONFIG GET; a role that may not read them is told, not guessed at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from redis.exceptions import RedisError

from contracts import limits
from dispatch.broker_url import (
    TLS_SCHEMES,
    broker_addresses,
    has_password,
    is_loopback,
    masked_url,
)
from dispatch.queue import FleetQueue
from worker.diagnosis.finding import Finding, Machine, fails, holds, warns

_SETTINGS: Final = {"appendonly": "yes", "maxmemory-policy": "noeviction", "protected-mode": "yes"}
_FSYNC: Final = ("everysec", "always")
# Half of what is refused: drift grows, and this is the time to look.
_CLOCK_WARNING_S: Final = limits.SKEW_S / 2
_NEARLY_FULL: Final = 0.9


def check_broker(machine: Machine) -> Iterator[Finding]:
    """Ask the broker about itself. Raises Unavailable when none answers."""
    url = machine.host.redis_url
    queue = FleetQueue.connect(url)
    try:
        queue.ping()
        yield holds("broker", f"answers at {masked_url(url)}")
        yield _reach(url)
        yield _found("broker settings", _settings_of, queue.connection)
        yield _found("broker memory", _memory_of, queue.connection)
        yield _found("clock", lambda redis: _clock(redis, machine.clock.wall), queue.connection)
    finally:
        queue.close()


def _found(name: str, look: Callable[[Any], Finding], connection: Any) -> Finding:
    try:
        return look(connection)
    except (RedisError, KeyError, ValueError) as error:
        what = f"cannot be read with our role ({type(error).__name__})"
        return warns(name, what, "compare with ops/redis/redis.conf on the broker's machine")


def _settings_of(connection: Any) -> Finding:
    found = {name: _setting(connection, name) for name in (*_SETTINGS, "appendfsync")}
    wrong = [
        f"{name} {found[name]}, not {wanted}"
        for name, wanted in _SETTINGS.items()
        if found[name] != wanted
    ]
    if found["appendfsync"] not in _FSYNC:
        wrong.append(f"appendfsync {found['appendfsync']}, not everysec")
    if wrong:
        remedy = "set it as in ops/redis/redis.conf: a queued job must survive a restart"
        return fails("broker settings", "; ".join(wrong), remedy)
    return holds("broker settings", "written down (AOF), evicts nothing, protected")


def _setting(connection: Any, name: str) -> str:
    answer = {_text(key): _text(value) for key, value in connection.config_get(name).items()}
    return answer[name]


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _memory_of(connection: Any) -> Finding:
    """Look at its memory. A disk that takes no more is told by its answer to the first ping."""
    memory = connection.info("memory")
    used, limit = int(memory["used_memory"]), int(memory["maxmemory"])
    if limit and used > limit * _NEARLY_FULL:
        what = f"{used} of {limit} bytes are used: it will refuse new jobs"
        return warns("broker memory", what, "raise maxmemory, or remove what is not ours")
    return holds("broker memory", f"{used} bytes used")


def _reach(url: str) -> Finding:
    """Judge what stands between the network and the queue."""
    name = "broker access"
    if all(is_loopback(host) for host, _ in broker_addresses(url)):
        return holds(name, "reached over loopback")
    if not has_password(url):
        what = "reached over the network without a password: whoever reaches it can write there"
        return fails(name, what, "set requirepass, and put the password into redis_url")
    if urlsplit(url).scheme not in TLS_SCHEMES:
        what = "reached over the network without TLS: tasks and results can be read on the way"
        return warns(name, what, "use rediss://, or a private network")
    return holds(name, "reached over TLS with a password")


def _clock(connection: Any, wall: Callable[[], float]) -> Finding:
    name = "clock"
    seconds, micros = connection.time()
    difference_s = abs(wall() - (int(seconds) + int(micros) / 1e6))
    what = f"{difference_s:.1f} s away from the broker's"
    remedy = "set up time synchronisation on both machines"
    if difference_s > limits.SKEW_S:
        return fails(name, f"{what}, more than the {limits.SKEW_S} s that are accepted", remedy)
    if difference_s > _CLOCK_WARNING_S:
        return warns(name, what, remedy)
    return holds(name, what)
