"""The link to the broker: building a client with bounds, and translating its errors.

Owns timeouts, retries and the words for what went wrong. A message names the URL without its
password; redis-py's own texts are never repeated, since they quote commands with their payloads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import redis
from redis import exceptions
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from contracts.clock import Clock, SystemClock
from contracts.errors import CouldNotCheck, FleetError, Unavailable
from dispatch.broker_url import checked_broker_url, masked_url
from dispatch.queue.clients import open_client

CONNECT_TIMEOUT_S: Final = 3.0
ANSWER_TIMEOUT_S: Final = 10.0  # a 22 MB envelope passes in well under a second on loopback
_RETRIES: Final = 2
_BACKOFF_BASE_S: Final = 0.05
_BACKOFF_CAP_S: Final = 0.5
_HEALTH_CHECK_S: Final = 30

_START_REMEDY: Final = (
    "start one with `fleet-dispatch broker`, or name another with FLEET_DISPATCH_REDIS_URL, "
    "--redis-url or [fleet] redis_url in config.toml"
)


def connect(url: str) -> redis.Redis:
    """Return a client of the broker at `url`, answering in bytes; it connects when first used.

    Raises InvalidRequest when the URL is none.
    """
    checked_broker_url(url, "redis_url")
    return open_client(
        url,
        socket_connect_timeout=CONNECT_TIMEOUT_S,
        socket_timeout=ANSWER_TIMEOUT_S,
        health_check_interval=_HEALTH_CHECK_S,
        # A connection that broke is made again; a broker that hangs hangs at the next try, too.
        retry=Retry(
            ExponentialBackoff(cap=_BACKOFF_CAP_S, base=_BACKOFF_BASE_S),
            _RETRIES,
            supported_errors=(exceptions.ConnectionError,),
        ),
        client_name="fleet-dispatch",
        decode_responses=False,
    )


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Turn what redis-py raises inside the block into Unavailable or CouldNotCheck."""
    try:
        yield
    except (exceptions.RedisError, OSError) as error:
        raise translation(error, masked_url(url)) from error


def translation(error: Exception, url: str) -> FleetError:
    """Return what `error` of redis-py means, in our words; `url` is shown as it is."""
    if isinstance(error, exceptions.AuthenticationError | exceptions.NoPermissionError):
        return Unavailable(
            f"the broker at {url} does not accept our password or role",
            remedy="put the right one into the URL",
        )
    if isinstance(error, exceptions.OutOfMemoryError):
        return Unavailable(
            f"the broker at {url} is full (maxmemory) and takes nothing new",
            remedy="raise its maxmemory, or remove what does not belong there; nothing was written",
        )
    if isinstance(error, exceptions.ReadOnlyError):
        return Unavailable(f"the broker at {url} is a read-only replica", remedy="name the primary")
    if isinstance(error, exceptions.ResponseError):
        return _answered(error, url)
    if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError | OSError):
        return Unavailable(f"no broker answers at {url}", remedy=_START_REMEDY)
    return CouldNotCheck(f"the exchange with the broker at {url} failed")


def _answered(error: exceptions.ResponseError, url: str) -> FleetError:
    """Translate an error that the server itself sent, by the code word that starts it."""
    text = str(error)
    if "MISCONF" in text:
        return Unavailable(
            f"the broker at {url} cannot write to its disk", remedy="free space there"
        )
    if "NOAUTH" in text:
        return Unavailable(f"the broker at {url} wants a password", remedy="put it into the URL")
    if "WRONGTYPE" in text:
        return CouldNotCheck(
            f"a key of ours in the broker at {url} holds something else",
            remedy="somebody else writes to this broker: use a database of its own",
        )
    return CouldNotCheck(f"the broker at {url} answered with an error")


class BrokerLink:
    """What every part of the queue holds: a connection, its URL for messages, and a clock."""

    def __init__(self, connection: redis.Redis, url: str, clock: Clock | None = None) -> None:
        self.connection = connection
        self.url = url
        self._clock: Clock = clock or SystemClock()

    def close(self) -> None:
        """Give the connections back."""
        self.connection.close()

    def ping(self) -> None:
        """Raise Unavailable unless the broker answers."""
        with translated(self.url):
            self.connection.ping()
