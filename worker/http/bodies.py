"""Reading a body: counted before and while it comes, under a deadline, in a shared room.

Never holds more than its bounds, whatever a length says or a stream does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request

from worker.http.bounds import FREE_BODY_BYTES, SHARED_BODY_ROOM_BYTES


class BodyRefused(Exception):
    """A body that is not read, or not to its end. `status` is what the peer is told."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class BodyRoom:
    """The room that all large bodies of one door share. Used from its event loop alone."""

    def __init__(self, size: int = SHARED_BODY_ROOM_BYTES) -> None:
        self._left = size

    @asynccontextmanager
    async def read(self, request: Request, *, most: int, seconds: float) -> AsyncIterator[bytes]:
        """Yield the body of `request`; its room is kept until the block ends.

        Raises BodyRefused: 413 beyond `most` bytes, 408 after `seconds`, 503 when the room is full.
        """
        _check_declared(request, most)
        taken = 0
        body = bytearray()
        try:
            async with asyncio.timeout(seconds):
                async for chunk in request.stream():
                    if len(body) + len(chunk) > most:
                        raise BodyRefused(413, "body_too_large")
                    wanted = max(0, len(body) + len(chunk) - FREE_BODY_BYTES) - taken
                    if wanted > self._left:
                        raise BodyRefused(503, "no_room_for_the_body")
                    if wanted > 0:
                        self._left -= wanted
                        taken += wanted
                    body += chunk
            data = bytes(body)
            body.clear()
            yield data
        except TimeoutError as error:
            raise BodyRefused(408, "body_too_slow") from error
        except ClientDisconnect as error:
            raise BodyRefused(400, "broken_off") from error
        finally:
            self._left += taken


def _check_declared(request: Request, most: int) -> None:
    """Refuse by the head alone what can be no body of ours."""
    declared = request.headers.get("content-length")
    if declared is not None and "transfer-encoding" in request.headers:
        raise BodyRefused(400, "two_lengths")
    if declared is not None and (not declared.isascii() or not declared.isdigit()):
        raise BodyRefused(400, "no_length")
    if declared is not None and int(declared[:20]) > most:
        raise BodyRefused(413, "body_too_large")
