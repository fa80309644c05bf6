"""Accepting connections: so many at a time and no more, from before TLS until they are closed.

When all places are taken, the one that has waited longest without a whole request makes room: an
honest peer sends its request at once, a flood of silent ones only pushes itself out.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Final

from uvicorn.config import Config
from uvicorn.server import ServerState

from worker.http.bounds import Deadlines
from worker.http.protocol import BoundedProtocol

_NO_DESCRIPTOR_PAUSE_S: Final = 0.5
_CLOSING_S: Final = 5.0


class Doorway:
    """The connections of one door, in the running event loop."""

    def __init__(
        self,
        listening: socket.socket,
        config: Config,
        *,
        tls: ssl.SSLContext | None,
        most: int,
        deadlines: Deadlines,
    ) -> None:
        """`listening` is a bound socket; `config` is uvicorn's, loaded."""
        self._socket = listening
        self._config = config
        self._tls = tls
        self._most = most
        self._deadlines = deadlines
        self._state = ServerState()
        self._state.default_headers = config.encoded_headers
        self._places: dict[asyncio.Task[None], BoundedProtocol | None] = {}

    async def run(self) -> None:
        """Accept until this task is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._socket)
            except OSError:  # no descriptor is left, or the peer has gone already
                await asyncio.sleep(_NO_DESCRIPTOR_PAUSE_S)
                continue
            if len(self._places) >= self._most and not self._make_room():
                accepted.close()
                continue
            task = loop.create_task(self._serve(accepted))
            self._places[task] = None
            task.add_done_callback(self._places.pop)
            # An accept that need not wait gives nobody a turn: a flood would hold the whole door.
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Let what is being answered end, for a few seconds; end the rest."""
        self._socket.close()
        for protocol in list(self._places.values()):
            if protocol is None or protocol.is_idle:
                continue
            protocol.shutdown()
        tasks = list(self._places)
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSING_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, accepted: socket.socket) -> None:
        """Hold one place until its connection is over."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        protocol = BoundedProtocol(self._config, self._state, self._deadlines)
        if task is not None:
            self._places[task] = protocol
        waits = {} if self._tls is None else {"ssl_handshake_timeout": self._deadlines.handshake_s}
        try:
            accepted.settimeout(0)
            await loop.connect_accepted_socket(lambda: protocol, accepted, ssl=self._tls, **waits)
            await protocol.closed.wait()
        except (OSError, ssl.SSLError):  # no handshake, or not in time: nothing is owed
            with contextlib.suppress(OSError):
                accepted.close()
        finally:
            protocol.abort()

    def _make_room(self) -> bool:
        """End the oldest connection that has not sent a whole head, else the oldest one whose body
        is still to come; say whether there was one."""
        unheard = [item for item in self._places.items() if item[1] is None or item[1].is_unheard]
        idle = (item for item in unheard if item[1] is None or item[1].is_idle)
        found = next(idle, unheard[0] if unheard else None)
        if found is None:
            return False
        task, protocol = found
        task.cancel()
        del self._places[task]
        self._places[task] = protocol  # it is ending: not the first to be asked again
        return True
