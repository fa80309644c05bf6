"""Announcements of results for a thread: any number of waited jobs on one connection.

An announcement only wakes; whoever is woken looks and verifies.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from redis.client import PubSub

from contracts import naming
from contracts.ids import checked_job_id
from dispatch.queue.link import BrokerLink, translated


class _Subscription(PubSub):
    """A subscription that says whether it was made again: redis-py does that by itself, and what
    was announced between the two nobody heard."""

    was_cut = False

    def on_connect(self, connection: Any) -> None:
        """See PubSub.on_connect: called whenever its connection is made anew."""
        self.was_cut = True
        super().on_connect(connection)


class DoneBells:
    """One subscription to the ends of some jobs, made at the first `hear`."""

    def __init__(self, link: BrokerLink, job_ids: Iterable[str]) -> None:
        self._url = link.url
        self._channels = {naming.done_channel(checked_job_id(i)).encode(): i for i in job_ids}
        pool: Any = link.connection.connection_pool
        self._subscription: Any = _Subscription(pool, ignore_subscribe_messages=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        self._subscription.close()

    def listen(self) -> bool:
        """Subscribe, in one command; say whether that was needed, or was done again meanwhile. What
        was announced before nobody hears any more: look at all. Raises Unavailable."""
        was_cut, self._subscription.was_cut = self._subscription.was_cut, False
        if self._subscription.subscribed or not self._channels:
            return bool(was_cut)
        with translated(self._url):
            self._subscription.subscribe(*self._channels)
        return True

    def hear(self, seconds: float) -> list[str]:
        """Return the jobs that are announced within so long, as soon as there is one. Raises
        Unavailable when the connection broke and cannot be made again."""
        heard: list[str] = []
        with translated(self._url):
            message = self._subscription.get_message(timeout=seconds)
            while message is not None:
                job_id = self._channels.get(message["channel"])
                heard += [] if job_id is None else [job_id]
                message = self._subscription.get_message(timeout=0)
        return list(dict.fromkeys(heard))
