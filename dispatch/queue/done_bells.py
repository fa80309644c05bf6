"""Announcements of results for a thread: any number of waited jobs on one connection.

An announcement only wakes; whoever is woken looks and verifies.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from contracts import naming
from contracts.ids import checked_job_id
from dispatch.queue.link import BrokerLink, translated


class DoneBells:
    """One subscription to the ends of some jobs, made at the first `hear`."""

    def __init__(self, link: BrokerLink, job_ids: Iterable[str]) -> None:
        self._url = link.url
        self._channels = {naming.done_channel(checked_job_id(i)).encode(): i for i in job_ids}
        connection: Any = link.connection  # redis-py leaves this one method untyped
        self._subscription = connection.pubsub(ignore_subscribe_messages=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        self._subscription.close()

    def listen(self) -> bool:
        """Subscribe, in one command; say whether that was needed. What was announced before nobody
        hears any more: look at all. Raises Unavailable."""
        if self._subscription.subscribed or not self._channels:
            return False
        with translated(self._url):
            self._subscription.subscribe(*self._channels)
        return True

    def hear(self, seconds: float) -> list[str]:
        """Return the jobs that are announced within so long, as soon as there is one. Raises
        Unavailable when the connection broke; it is made again at the next `listen`."""
        heard: list[str] = []
        with translated(self._url):
            message = self._subscription.get_message(timeout=seconds)
            while message is not None:
                job_id = self._channels.get(message["channel"])
                heard += [] if job_id is None else [job_id]
                message = self._subscription.get_message(timeout=0)
        return list(dict.fromkeys(heard))
