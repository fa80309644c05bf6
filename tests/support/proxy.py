"""A small TCP proxy for tests: it forwards, it stalls, it cuts, and it can be led elsewhere.

Stalling is what a dead network does: connections stay open, new ones are accepted, no byte passes.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOOK_S = 0.05
_CHUNK = 65_536


class Proxy:
    """Forwards connections of a loopback port to `target`, another loopback port."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._flowing = threading.Event()
        self._flowing.set()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        """Return the broker's URL for clients that shall pass here."""
        return f"redis://127.0.0.1:{self.port}/0"

    def stall(self) -> None:
        """Let no byte pass any more, in either direction."""
        self._flowing.clear()

    def flow(self) -> None:
        """Let everything pass again, what was held back first."""
        self._flowing.set()

    def cut(self) -> None:
        """Break every connection of this moment; new ones are taken."""
        with self._lock:
            held, self._open = self._open, set()
        for one in held:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def lead_to(self, target: int) -> None:
        """Break every connection and forward new ones to another port."""
        self.target = target
        self.cut()
        self.flow()

    def close(self) -> None:
        """End the proxy and every connection through it."""
        self._ended.set()
        self.flow()
        self.cut()
        for thread in list(self._threads):
            thread.join(10)
        self._server.close()

    def _accept(self) -> None:
        while not self._ended.is_set():
            if not select.select([self._server], [], [], _LOOK_S)[0]:
                continue
            client, _ = self._server.accept()
            thread = threading.Thread(target=self._serve, args=(client,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        self._flowing.wait()
        try:
            upstream = socket.create_connection(("127.0.0.1", self.target), timeout=5)
        except OSError:
            client.close()
            return
        with client, upstream:
            with self._lock:
                self._open |= {client, upstream}
            with contextlib.suppress(OSError):
                self._forward(client, upstream)
            with self._lock:
                self._open -= {client, upstream}

    def _forward(self, client: socket.socket, upstream: socket.socket) -> None:
        other = {client: upstream, upstream: client}
        while not self._ended.is_set():
            ready = select.select(list(other), [], [], _LOOK_S)[0]
            self._flowing.wait()
            for source in ready:
                data = source.recv(_CHUNK)
                if not data:
                    return
                other[source].sendall(data)


@contextmanager
def proxy_to(port: int) -> Iterator[Proxy]:
    """Yield a proxy to the loopback port `port`, ended afterwards."""
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
