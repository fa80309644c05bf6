"""Clients of redis-py from a URL: a server, a Unix socket, TLS, or whoever Sentinel calls primary.

A client behind Sentinels asks them anew at every connection, so that it follows a failover. They
are asked with the same short limits as the broker itself. Nothing connects here.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import redis
from redis import asyncio as redis_asyncio
from redis import connection as redis_connection
from redis import sentinel as redis_sentinel
from redis.asyncio import sentinel as asyncio_sentinel
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from dispatch.broker_url import SENTINEL_SCHEMES, TLS_SCHEMES, broker_addresses

_SENTINEL_LOGIN: Final = {"sentinel_username": "username", "sentinel_password": "password"}
# A Sentinel that does not answer must not hold up the next one.
_SENTINEL_ANSWER_S: Final = 1.0
# redis-py leaves these without types.
_Sentinel: Final[Any] = redis_sentinel.Sentinel
_AsyncSentinel: Final[Any] = asyncio_sentinel.Sentinel
_parse_url: Final[Any] = redis_connection.parse_url
# No role needs the right to tell its library's name, and no server moves our connections elsewhere.
_QUIET: Final[dict[str, Any]] = {
    "driver_info": None,
    "maint_notifications_config": MaintNotificationsConfig(enabled=False),
}


class _Watched(NamedTuple):
    """What a Sentinel URL says."""

    nodes: list[tuple[str, int]]
    service: str
    for_sentinels: dict[str, Any]
    for_broker: dict[str, Any]


def open_client(url: str, **options: Any) -> redis.Redis:
    """Return a client of the broker at `url`, checked before; `options` as redis-py has them."""
    if urlsplit(url).scheme not in SENTINEL_SCHEMES:
        return redis.Redis.from_url(url, **_QUIET, **options)
    watched = _read(url)
    asked = {**watched.for_sentinels, "retry": Retry(NoBackoff(), 0)}
    sentinel = _Sentinel(watched.nodes, sentinel_kwargs=asked)
    chosen = {**watched.for_broker, **_QUIET, **options}
    client: redis.Redis = sentinel.master_for(watched.service, **chosen)
    return client


def open_async_client(url: str, **options: Any) -> redis_asyncio.Redis:
    """The same for asyncio."""
    if urlsplit(url).scheme not in SENTINEL_SCHEMES:
        return redis_asyncio.Redis.from_url(url, **_QUIET, **options)
    watched = _read(url)
    asked = {**watched.for_sentinels, "retry": AsyncRetry(NoBackoff(), 0)}
    sentinel = _AsyncSentinel(watched.nodes, sentinel_kwargs=asked)
    chosen = {**watched.for_broker, **_QUIET, **options}
    client: redis_asyncio.Redis = sentinel.master_for(watched.service, **chosen)
    return client


def _read(url: str) -> _Watched:
    parts = urlsplit(url)
    _, service, db = f"{parts.path}/".split("/")[:3]
    given = parse_qsl(parts.query)
    login = parts.netloc.rpartition("@")[0]
    # redis-py reads the rest: it knows its own options.
    plain = urlunsplit(
        (
            parts.scheme.partition("+")[0],
            f"{login}@sentinel" if login else "sentinel",
            f"/{db}",
            urlencode([item for item in given if item[0] not in _SENTINEL_LOGIN]),
            "",
        )
    )
    broker = dict(_parse_url(plain))
    for name in ("host", "port", "connection_class"):
        broker.pop(name, None)
    shared: dict[str, Any] = {"ssl": True} if parts.scheme in TLS_SCHEMES else {}
    shared |= {name: value for name, value in broker.items() if name.startswith("ssl_")}
    sentinels: dict[str, Any] = {_SENTINEL_LOGIN[k]: v for k, v in given if k in _SENTINEL_LOGIN}
    sentinels |= {"socket_timeout": _SENTINEL_ANSWER_S, "driver_info": None, **shared}
    sentinels["socket_connect_timeout"] = _SENTINEL_ANSWER_S
    return _Watched(broker_addresses(url), service, sentinels, {**broker, **shared})
