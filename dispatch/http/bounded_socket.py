"""A connected socket whose whole exchange has one end in time, however slowly a peer drips.

A socket's own timeout begins anew with every byte; here it is what is left of the exchange too.
"""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable
from typing import Any, Final

_CHUNK: Final = 65_536


class BoundedSocket:
    """What `http.client` uses of a socket. Owns the socket that it is given."""

    def __init__(
        self,
        connected: socket.socket,
        *,
        idle_s: float,
        total_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`idle_s` may pass without a byte, `total_s` from now on with however many."""
        self._socket = connected
        self._idle_s = idle_s
        self._monotonic = monotonic
        self._end = monotonic() + total_s

    def sendall(self, data: Any) -> None:
        """Send all of `data`. Raises TimeoutError when the peer takes too long to read it."""
        left = memoryview(data)
        while left:
            self.begin_step()
            left = left[self._socket.send(left[:_CHUNK]) :]

    def makefile(self, _mode: str = "rb") -> io.BufferedReader:
        """Return what reads from the peer; it keeps the connection when this object is closed."""
        return io.BufferedReader(_BoundedReads(self, self._socket.makefile("rb", buffering=0)))

    def close(self) -> None:
        """Close the socket as soon as nothing reads from it."""
        self._socket.close()

    def begin_step(self) -> None:
        """Bound the next send or read. Raises TimeoutError when the time of all is over."""
        left = self._end - self._monotonic()
        if left <= 0:
            raise TimeoutError("the exchange took too long")
        self._socket.settimeout(min(self._idle_s, left))


class _BoundedReads(io.RawIOBase):
    def __init__(self, owner: BoundedSocket, raw: Any) -> None:
        super().__init__()
        self._owner = owner
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._owner.begin_step()
        count: int | None = self._raw.readinto(buffer)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()
