"""Every command that reaches a server while a test looks on, each with who sent it.

MONITOR shows what was executed; commands of a script follow the script's own line and are its
caller's. Who a client is it says itself, by the name that it gave its connection.
"""

from __future__ import annotations

import re
import socket
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

_TOLD = re.compile(r"\+[0-9.]+ \[[0-9]+ ([^\]]+)\] (.*)")
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')
_SUB_COMMANDS = ("client", "memory", "config", "acl", "script", "xgroup", "xinfo", "object")
_SCRIPT_CALLERS = ("eval", "eval_ro", "evalsha", "evalsha_ro")
_NAMES = {"fleet-dispatch-listener": "listener", "fleet-dispatch": "sender"}


class Witness:
    """What was seen: role -> commands, as users.acl spells them."""

    def __init__(self, port: int, user: str, password: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._lines = self._socket.makefile("rb")
        self._seen: list[tuple[str, str, list[str]]] = []  # client, command, its next words
        self._thread = threading.Thread(target=self._look)
        for words in (f"AUTH {user} {password}", "MONITOR"):
            self._socket.sendall(f"{words}\r\n".encode())
            assert self._lines.readline() == b"+OK\r\n"
        self._socket.settimeout(None)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(20)
        self._lines.close()
        self._socket.close()

    def commands(self) -> dict[str, set[str]]:
        """Return what each role sent so far; what came before a client said its name counts."""
        seen = list(self._seen)
        roles = {
            client: _NAMES.get(words[1], "")
            for client, command, words in seen
            if command == "client|setname"
        }
        # Pools are kept over connections of their own, by whoever governs and by listeners.
        pools = {client for client, _, words in seen if any(w.startswith("fd:gov:") for w in words)}
        roles |= {client: "governor" for client in pools if roles.get(client)}
        found: dict[str, set[str]] = defaultdict(set)
        for client, command, _ in seen:
            if roles.get(client) and command not in ("auth", "hello"):
                found[roles[client]].add(command)
        return found

    def _look(self) -> None:
        caller = ""
        for line in self._lines:
            told = _TOLD.match(line.decode("utf-8", "replace"))
            if told is None:
                continue
            words = _WORD.findall(told[2][:400])
            command = words[0].lower()
            if command in _SUB_COMMANDS and len(words) > 1:
                command = f"{command}|{words[1].lower()}"
            client = told[1]
            if client == "lua":
                client = caller
            elif command in _SCRIPT_CALLERS:
                caller = client
            self._seen.append((client, command, words[1:6]))


@contextmanager
def looking_on(port: int, user: str, password: str) -> Iterator[Witness]:
    """Yield a witness of all that is done at the server on `port`."""
    witness = Witness(port, user, password)
    witness.start()
    try:
        yield witness
    finally:
        witness.stop()
