"""Who waits at the door for the end of a job. Woken by the end itself; nobody polls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Ends:
    """The waiters of one door, in its event loop; only `ring` is for other threads."""

    def __init__(self, most: int) -> None:
        """At most `most` wait at the same time; further ones are answered at once."""
        self._most = most
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[str, list[asyncio.Event]] = {}
        self._count = 0

    def bind(self) -> None:
        """Wake waiters in the running loop from here on."""
        self._loop = asyncio.get_running_loop()

    @contextmanager
    def watching(self, job_id: str) -> Iterator[asyncio.Event | None]:
        """Yield what is set when the job ends from now on; None when too many wait already."""
        if self._count >= self._most:
            yield None
            return
        event = asyncio.Event()
        self._count += 1
        self._waiting.setdefault(job_id, []).append(event)
        try:
            yield event
        finally:
            self._count -= 1
            events = self._waiting[job_id]
            events.remove(event)
            if not events:
                del self._waiting[job_id]

    def ring(self, job_id: str) -> None:
        """Wake whoever waits for that job; from any thread, at any time."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._ring, job_id)

    def ring_all(self) -> None:
        """Wake everybody: the door closes. In the loop's own thread."""
        for events in self._waiting.values():
            for event in events:
                event.set()

    def _ring(self, job_id: str) -> None:
        for event in self._waiting.get(job_id, ()):
            event.set()
