"""One connection: uvicorn's HTTP/1.1 with deadlines, one request, and one word for every refusal.

uvicorn bounds neither how long a head may take nor how long a connection lives; both are bounded
here. What is no HTTP is answered as everything else that is refused.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from worker.http.answers import REFUSED_BODY
from worker.http.bounds import Deadlines

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

_REFUSAL = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(REFUSED_BODY), REFUSED_BODY)
)


class BoundedProtocol(H11Protocol):
    """One bounded connection. `closed` is set when it is over."""

    def __init__(self, config: Config, state: ServerState, deadlines: Deadlines) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(config=config, server_state=state, app_state={}, _loop=loop)
        self.closed = asyncio.Event()
        self._deadlines = deadlines
        self._timers: list[asyncio.TimerHandle] = []

    @property
    def is_idle(self) -> bool:
        """Say whether it has not sent a whole head yet."""
        return self.cycle is None

    @property
    def is_unheard(self) -> bool:
        """Say whether it has not sent its whole request yet, which anybody can begin."""
        return self.is_idle or self.cycle.more_body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start both clocks."""
        super().connection_made(transport)
        bounds = self._deadlines
        self._timers = [
            self.loop.call_later(bounds.header_s, self._end_if_idle),
            self.loop.call_later(bounds.life_s, self.abort),
        ]

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        super().connection_lost(exc)
        for timer in self._timers:
            timer.cancel()
        self.closed.set()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's own words
        """Refuse what is no HTTP, and end the connection. In the midst of a request its answer, if
        one has begun, is broken off."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(_REFUSAL)
        self.transport.close()

    def abort(self) -> None:
        """End the connection now, whatever is still under way."""
        if self.transport is not None:
            self.transport.abort()

    def _end_if_idle(self) -> None:
        if self.is_idle:
            self.abort()
