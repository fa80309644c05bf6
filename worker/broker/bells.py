"""The bells: channels that say "look at this queue". Waking is all that they can do; what they
carry is never read, and a lost ring costs one second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis import Redis

from contracts import naming


class Bells:
    """The bells of some queues."""

    def __init__(self, connection: Redis, queues: Sequence[str]) -> None:
        client: Any = connection  # redis leaves pubsub untyped
        self._pubsub = client.pubsub(ignore_subscribe_messages=True)
        self._channels = [naming.bell_channel(queue) for queue in queues]

    def wait(self, seconds: float) -> None:
        """Return at a ring, and after `seconds` at the latest. Raises Redis's errors."""
        if not self._pubsub.subscribed:
            self._pubsub.subscribe(*self._channels)
        self._pubsub.get_message(timeout=seconds)

    def close(self) -> None:
        """Give the connection back; the next `wait` subscribes anew."""
        self._pubsub.close()
