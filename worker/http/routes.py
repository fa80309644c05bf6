"""The routes of the door: four, and one refusal for everything else. Decides nothing of a job."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from redis.exceptions import RedisError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from contracts.errors import CouldNotCheck, EnvelopeRefused, InvalidRequest, Unavailable
from worker.announcer import Say
from worker.asks import Asks
from worker.http.answers import refusal, signed
from worker.http.asked import AskedJobs
from worker.http.bodies import BodyRefused, BodyRoom
from worker.http.bounds import JOB_BODY_MAX_BYTES, SMALL_BODY_MAX_BYTES, Deadlines
from worker.http.gate import Gate
from worker.http.jobs import PostedJobs

_T = TypeVar("_T")
_HEALTHY: Final = b'{"ok":true}'
_NOT_NOW: Final = (RedisError, Unavailable, CouldNotCheck)


@dataclass(frozen=True, slots=True)
class SignedAnswer:
    """What a part of the listener answers to a signed message; no text: it is refused."""

    status: int
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """What stands behind the routes. `cancel` takes the text of a signed order."""

    jobs: PostedJobs
    asks: Asks
    asked: AskedJobs
    cancel: Callable[[bytes], SignedAnswer]


class Routes:
    """The routes of one door, in its event loop."""

    def __init__(self, behind: Behind, threads: Executor, deadlines: Deadlines, say: Say) -> None:
        self._behind = behind
        self._threads = threads
        self._deadlines = deadlines
        self._say = say
        self._room = BodyRoom()

    def app(self, hosts: Collection[str]) -> ASGIApp:
        """Return the application, for requests to one of the names `hosts`."""
        routes = [
            Route("/v1/jobs", self._post_job, methods=["POST"]),
            Route("/v1/ask", self._ask, methods=["POST"]),
            Route("/v1/cancel", self._cancel, methods=["POST"]),
            Route("/v1/health", self._health, methods=["GET"]),
        ]
        handlers = {HTTPException: self._no_route, Exception: self._failed}
        inner = Starlette(routes=routes, exception_handlers=handlers)
        inner.router.redirect_slashes = False
        return Gate(inner, hosts=hosts, say=self._say)

    async def in_thread(self, act: Callable[[], _T]) -> _T:
        """Do what touches a disk or checks a signature in one of the door's few threads."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, act)

    async def _health(self, _request: Request) -> Response:
        return Response(_HEALTHY, media_type="application/json")

    async def _post_job(self, request: Request) -> Response:
        async def take(text: bytes) -> Response:
            posted = await self.in_thread(partial(self._behind.jobs.take, text))
            if posted.receipt is None:
                return refusal(403 if posted.status in (202, 409) else posted.status)
            return signed(posted.receipt, posted.status)

        return await self._with_body(request, JOB_BODY_MAX_BYTES, take)

    async def _ask(self, request: Request) -> Response:
        async def ask(text: bytes) -> Response:
            verified = await self.in_thread(partial(self._behind.asks.verify, text))
            return await self._behind.asked.answer(verified, self._wait_of(request))

        return await self._with_body(request, SMALL_BODY_MAX_BYTES, ask)

    async def _cancel(self, request: Request) -> Response:
        async def cancel(text: bytes) -> Response:
            answer = await self.in_thread(partial(self._behind.cancel, text))
            if answer.text is None:
                return refusal(answer.status)
            return signed(answer.text, answer.status)

        return await self._with_body(request, SMALL_BODY_MAX_BYTES, cancel)

    async def _with_body(
        self, request: Request, most: int, act: Callable[[bytes], Awaitable[Response]]
    ) -> Response:
        """Answer a request by its body; what is refused is told by a status alone."""
        seconds = self._deadlines.body_s
        try:
            async with self._room.read(request, most=most, seconds=seconds) as text:
                return await act(text)
        except BodyRefused as error:
            return self._refuse(error.status, error.reason)
        except EnvelopeRefused as error:
            return self._refuse(403, error.code)
        except InvalidRequest:
            return self._refuse(403, "malformed")
        except _NOT_NOW as error:
            return self._refuse(503, type(error).__name__)

    def _wait_of(self, request: Request) -> float:
        """Return how long this peer wants to wait, within our own bound. It is not signed: all it
        can do is to end a wait early."""
        text = request.query_params.get("wait", "")
        seconds = float(text) if text.isascii() and text.isdigit() and len(text) <= 4 else 0.0
        return min(seconds, self._deadlines.wait_s)

    def _refuse(self, status: int, reason: str) -> Response:
        self._say("turned_away", door="http", reason=reason)
        return refusal(status)

    async def _no_route(self, _request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        return self._refuse(status, "no_route")

    async def _failed(self, _request: Request, error: Exception) -> Response:
        self._say("door_failed", reason=type(error).__name__)
        return refusal(500)
