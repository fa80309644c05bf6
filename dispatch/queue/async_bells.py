"""Announcements of results for asyncio: many waits on one connection.

An announcement only wakes; whoever is woken looks and verifies. A connection that breaks is made
again, and waiters look by themselves every few seconds, so a lost announcement costs time alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import RedisError

from contracts import naming
from dispatch.queue.clients import open_async_client
from dispatch.queue.link import CONNECT_TIMEOUT_S

_LISTEN_S: Final = 5.0
_RETRY_PAUSE_S: Final = 1.0


class AsyncBells:
    """One subscription connection for any number of waiting jobs, opened at the first of them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: Redis | None = None
        self._pubsub: Any = None
        self._task: asyncio.Task[None] | None = None
        self._events: dict[str, asyncio.Event] = {}
        self._waiting: Counter[str] = Counter()
        self._changed = asyncio.Lock()

    @asynccontextmanager
    async def hearing(self, job_id: str) -> AsyncIterator[asyncio.Event]:
        """Yield an event that is set whenever a result of `job_id` is announced; clear it
        yourself before looking."""
        channel = naming.done_channel(job_id)
        event = self._events.setdefault(channel, asyncio.Event())
        self._waiting[channel] += 1
        try:
            await self._subscribe(channel)
            yield event
        finally:
            self._waiting[channel] -= 1
            if not self._waiting[channel]:
                del self._waiting[channel], self._events[channel]
                await self._unsubscribe(channel)

    def ring(self, job_id: str) -> None:
        """Wake who hears of `job_id`, as an announcement does."""
        event = self._events.get(naming.done_channel(job_id))
        if event is not None:
            event.set()

    async def close(self) -> None:
        """End the subscription and its task."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        with contextlib.suppress(RedisError, OSError):
            if self._pubsub is not None:
                await self._pubsub.aclose()
            if self._client is not None:
                await self._client.aclose()

    async def _subscribe(self, channel: str) -> None:
        async with self._changed:
            if self._client is None:
                self._client = open_async_client(
                    self._url,
                    socket_connect_timeout=CONNECT_TIMEOUT_S,
                    socket_timeout=None,
                    client_name="fleet-dispatch",
                )
                self._pubsub = self._client.pubsub(ignore_subscribe_messages=True)
            with contextlib.suppress(RedisError, OSError):  # the reader subscribes again
                await self._pubsub.subscribe(channel)
            if self._task is None:
                self._task = asyncio.create_task(self._read())

    async def _unsubscribe(self, channel: str) -> None:
        async with self._changed:
            if channel in self._events:
                return  # somebody began to wait for it meanwhile
            with contextlib.suppress(RedisError, OSError):
                await self._pubsub.unsubscribe(channel)

    async def _read(self) -> None:
        while True:
            try:
                if not self._pubsub.subscribed:
                    await asyncio.sleep(0.05)
                    continue
                message = await self._pubsub.get_message(timeout=_LISTEN_S)
            except (RedisError, OSError):
                await asyncio.sleep(_RETRY_PAUSE_S)
                continue
            if message is not None:
                event = self._events.get(message["channel"].decode("utf-8", "replace"))
                if event is not None:
                    event.set()
