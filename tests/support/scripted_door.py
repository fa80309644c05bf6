"""A peer that answers each connection as it is told: what no door does, and what is between."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Act = Callable[[socket.socket, bytes], None]


def reply(status: int, body: bytes | str = b"", *, head: str = "") -> Act:
    """Return what answers a request so, and hangs up."""
    data = body.encode() if isinstance(body, str) else body

    def act(connection: socket.socket, _request: bytes) -> None:
        line = f"HTTP/1.1 {status} X\r\n{head}Content-Length: {len(data)}\r\n\r\n"
        connection.sendall(line.encode() + data)

    return act


def hang_up(connection: socket.socket, _request: bytes) -> None:
    """Take the request and say nothing."""
    connection.close()


class ScriptedDoor:
    """Answers connections by `script`, one after the other; the last line of it is for the rest."""

    def __init__(self, listening: socket.socket, script: list[Act]) -> None:
        self._listening = listening
        self.script = script
        self.requests: list[bytes] = []

    @property
    def url(self) -> str:
        host, port = self._listening.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(30)
                try:
                    request = _read_request(connection)
                    act = self.script[min(len(self.requests), len(self.script) - 1)]
                    self.requests.append(request)
                    act(connection, request)
                except OSError:
                    continue


def _read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65_536)
        if not chunk:
            return data
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    )
    while len(body) < length:
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


@contextmanager
def scripted_door(*script: Act, address: str = "127.0.0.1") -> Iterator[ScriptedDoor]:
    """Yield such a peer on a port of this machine."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as listening:
        door = ScriptedDoor(listening, list(script))
        thread = threading.Thread(target=door.serve, daemon=True)
        thread.start()
        yield door
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(30)
