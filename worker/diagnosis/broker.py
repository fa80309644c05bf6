"""Is the broker there, is it set up as ops/redis says, and do its clock and ours agree.

Reads INFO, TIME and CONFIG GET. The roles of ops/redis/users.acl may not read the last one, which
tells passwords; for them INFO says what it can, and the rest is told as not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from redis.exceptions import NoPermissionError, RedisError

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
_AS_IN_FILE: Final = "set it as in ops/redis/redis.conf: a queued job must survive a restart"
_OLDEST: Final = (6, 2)  # LMOVE takes a job without losing sight of it
_WANTED: Final = (7, 0)  # users.acl tells reading from writing
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
        yield _found("broker version", _version_of, queue.connection)
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


def _version_of(connection: Any) -> Finding:
    name = "broker version"
    told = connection.info("server")
    version = _text(told["redis_version"])
    shown = f"Valkey {_text(told['valkey_version'])}" if "valkey_version" in told else version
    numbers = tuple(int(part) for part in version.split(".")[:2])
    if numbers < _OLDEST:
        return fails(name, f"{shown} is older than 6.2: it cannot move a job in one step", "update")
    if numbers < _WANTED:
        return warns(name, f"{shown} knows no roles that only read", "update to 7.0 or newer")
    return holds(name, shown)


def _settings_of(connection: Any) -> Finding:
    try:
        found = {name: _setting(connection, name) for name in (*_SETTINGS, "appendfsync")}
    except NoPermissionError:
        return _settings_as_told(connection)
    wrong = [
        f"{name} {found[name]}, not {wanted}"
        for name, wanted in _SETTINGS.items()
        if found[name] != wanted
    ]
    if found["appendfsync"] not in _FSYNC:
        wrong.append(f"appendfsync {found['appendfsync']}, not everysec")
    if wrong:
        return fails("broker settings", "; ".join(wrong), _AS_IN_FILE)
    return holds("broker settings", "written down (AOF), evicts nothing, protected")


def _settings_as_told(connection: Any) -> Finding:
    """Judge what INFO tells a role that may not read the settings."""
    wrong = []
    if not int(connection.info("persistence")["aof_enabled"]):
        wrong.append("appendonly no, not yes")
    policy = _text(connection.info("memory")["maxmemory_policy"])
    if policy != _SETTINGS["maxmemory-policy"]:
        wrong.append(f"maxmemory-policy {policy}, not noeviction")
    if wrong:
        return fails("broker settings", "; ".join(wrong), _AS_IN_FILE)
    what = "written down (AOF), evicts nothing; our role may not see how often, nor protected-mode"
    return holds("broker settings", what)


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
