"""The listener's connection to the broker: short limits and no silent second try.

A command that is sent twice because its answer got lost could take two jobs and lose sight of one.
So every failure is seen by the loop that asked, which looks what it holds before it tries again.
"""

from __future__ import annotations

from typing import Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from dispatch.queue.clients import open_client

_CONNECT_S: Final = 3.0
_ANSWER_S: Final = 10.0  # a job of 22 MB passes in well under a second on loopback
_HEALTH_CHECK_S: Final = 15


def connect_listener(url: str) -> redis.Redis:
    """Return a client of the broker at `url`, checked before; it connects when first used."""
    return open_client(
        url,
        socket_connect_timeout=_CONNECT_S,
        socket_timeout=_ANSWER_S,
        health_check_interval=_HEALTH_CHECK_S,
        retry=Retry(NoBackoff(), 0),
        client_name="fleet-dispatch-listener",
        decode_responses=False,
    )
