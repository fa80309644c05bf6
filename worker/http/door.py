"""The HTTP door of a listener: bound when it is built, served in a thread and loop of its own.

Owns its socket, its loop and its few threads. What happens behind it is the entry's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from uvicorn.config import Config

from contracts.errors import Unavailable
from worker.announcer import Say
from worker.http.bounds import BACKLOG, HEADERS_MAX_BYTES, THREADS, Deadlines
from worker.http.doorway import Doorway
from worker.http.ends import Ends
from worker.http.gate import door_names
from worker.http.routes import Behind, Routes
from worker.http.settings import HttpDoorSettings

_JOIN_S: Final = 20.0


class HttpDoor:
    """One door; nothing is accepted before `start`."""

    def __init__(
        self,
        settings: HttpDoorSettings,
        *,
        tls: ssl.SSLContext | None,
        ends: Ends,
        behind: Callable[[ThreadPoolExecutor], Behind],
        say: Say,
        deadlines: Deadlines | None = None,
    ) -> None:
        """Bind the socket. `behind` builds what stands behind the routes, given the door's threads.

        Raises Unavailable when the address cannot be bound.
        """
        self._settings = settings
        self._tls = tls
        self._ends = ends
        self._say = say
        self._deadlines = deadlines or Deadlines()
        self._socket = _bind(settings)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="http")
        routes = Routes(behind(self._threads), self._threads, self._deadlines, say)
        names = door_names(settings.bind_host, settings.allowed_hosts)
        self._config = _uvicorn_config(routes.app(names))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="http-door")

    @property
    def url(self) -> str:
        """Return where the door is, with the port that it really has."""
        scheme = "http" if self._tls is None else "https"
        host, port = self._socket.getsockname()[:2]
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    def start(self) -> None:
        """Open the door; return when it is open."""
        self._thread.start()
        self._ready.wait(_JOIN_S)

    def close(self) -> None:
        """Close the door; what is being answered has a few seconds."""
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended already
                self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)
        self._socket.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:  # noqa: BLE001 - the top of a thread
            self._say("door_failed", reason=type(error).__name__)
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._failed)
        self._stop = asyncio.Event()
        self._ends.bind()
        doorway = Doorway(
            self._socket,
            self._config,
            tls=self._tls,
            most=self._settings.max_connections,
            deadlines=self._deadlines,
        )
        accepting = asyncio.create_task(doorway.run())
        self._ready.set()
        await self._stop.wait()
        accepting.cancel()
        self._ends.ring_all()
        await doorway.close()

    def _failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """Say what the loop could tell nobody, in one word: a context may quote what was sent."""
        self._say("door_failed", reason=type(context.get("exception")).__name__)


def _bind(settings: HttpDoorSettings) -> socket.socket:
    """Return the listening socket. Raises Unavailable."""
    address = (settings.bind_host, settings.bind_port)
    family = socket.AF_INET6 if ":" in settings.bind_host else socket.AF_INET
    try:
        bound = socket.create_server(address, family=family, backlog=BACKLOG)
    except OSError as error:
        raise Unavailable(
            f"the HTTP door cannot be opened at {settings.bind}: {error.strerror}",
            remedy="name a free port of this machine with --http, or [http] bind",
        ) from error
    bound.settimeout(0)
    return bound


def _uvicorn_config(app: object) -> Config:
    """Return uvicorn's settings: one request for each connection, and no word of its own."""
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL + 1)
    config = Config(
        app,  # type: ignore[arg-type] # an ASGI application, as uvicorn's own types spell it
        http="h11",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        headers=[("connection", "close"), ("cache-control", "no-store")],
        h11_max_incomplete_event_size=HEADERS_MAX_BYTES,
    )
    config.load()
    return config
