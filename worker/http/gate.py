"""What every request has to pass before anything of it is read: its head, its Host, its origin.

A browser always names the origin of a request that a page made, so a page can reach no door of
ours; a Host that is not ours tells of a name that was led here (DNS rebinding) or of a proxy.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeAlias

from starlette.types import ASGIApp, Receive, Scope, Send

from worker.announcer import Say
from worker.http.answers import refusal
from worker.http.bounds import HEADERS_MAX, HEADERS_MAX_BYTES

_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
Headers: TypeAlias = Collection[tuple[bytes, bytes]]


class Gate:
    """Stands before the routes, and is the last boundary behind them."""

    def __init__(self, app: ASGIApp, *, hosts: Collection[str], say: Say) -> None:
        """`hosts` are the names, without a port, under which this door may be reached."""
        self._app = app
        self._hosts = frozenset(name.lower() for name in hosts)
        self._say = say

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or let it pass."""
        if scope["type"] != "http":
            return
        status, reason = self._judge(scope["headers"])
        if status:
            self._say("turned_away", door="http", reason=reason)
            await refusal(status)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _judge(self, headers: Headers) -> tuple[int, str]:
        """Return the status and the reason of a refusal, 0 when the request may pass."""
        if (
            len(headers) > HEADERS_MAX
            or sum(len(k) + len(v) for k, v in headers) > HEADERS_MAX_BYTES
        ):
            return 431, "head_too_large"
        names = [name for name, _ in headers]
        if b"origin" in names:
            return 403, "origin"
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 or host_name(hosts[0]) not in self._hosts:
            return 421, "wrong_host"
        if names.count(b"content-length") > 1 or names.count(b"transfer-encoding") > 1:
            return 400, "two_lengths"
        return 0, ""


def host_name(value: bytes) -> str:
    """Return the name in a Host header, without its port, in lower case."""
    text = value.decode("latin-1").lower()
    if text.startswith("["):
        return text.partition("]")[0] + "]"
    return text.partition(":")[0]


def door_names(bind_host: str, allowed: Collection[str]) -> frozenset[str]:
    """Return the names under which a door may be reached: what is configured, what it is bound to,
    and this machine's own names where it is bound to those."""
    bound = f"[{bind_host}]" if ":" in bind_host else bind_host
    is_loopback = bound in _LOOPBACK_NAMES
    return frozenset({*allowed, bound, *(_LOOPBACK_NAMES if is_loopback else ())})
