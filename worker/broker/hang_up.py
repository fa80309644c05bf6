"""The end of waiting for a broker that does not answer, while the listener is ending.

A read from a broker that hangs blocks for its whole limit, and one follows the other: measured, a
listener that was told to end during an outage took 58 s. So each step of the end has a limit; when
it is over, the sockets in use are shut down, and whoever waits on one goes on at once. Only for
the end: what is cut off is looked at again by the next listener.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any, Final

from redis import Redis

from contracts.clock import Clock

_AGAIN_EVERY_S: Final = 0.5  # whoever goes on may try the next connection: that is cut, too


class HangUp:
    """Cuts the connections of one client."""

    def __init__(self, connection: Redis, clock: Clock) -> None:
        self._redis: Any = connection
        self._clock = clock

    @contextlib.contextmanager
    def after(self, seconds: float, *, since: threading.Event | None = None) -> Iterator[None]:
        """Let what happens inside wait for the broker no longer than `seconds`, counted from the
        moment at which `since` is set, if there is one."""
        over = threading.Event()
        watch = threading.Thread(
            target=self._watch, args=(seconds, since, over), name="hang-up", daemon=True
        )
        watch.start()
        try:
            yield
        finally:
            over.set()

    def _watch(self, seconds: float, since: threading.Event | None, over: threading.Event) -> None:
        if since is not None:
            since.wait()
        while not self._clock.wait(over, seconds):
            self._cut()
            seconds = _AGAIN_EVERY_S

    def _cut(self) -> None:
        """Shut the sockets down, not the connections: those belong to the threads that use them."""
        for connection in list(getattr(self._redis.connection_pool, "_in_use_connections", ())):
            used = getattr(connection, "_sock", None)
            if used is not None:
                with contextlib.suppress(OSError):
                    used.shutdown(socket.SHUT_RDWR)
