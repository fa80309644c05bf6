"""What the door says. A refusal is one body for everybody: its reason stands in our log alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.background import BackgroundTask
from starlette.responses import Response

from worker.http.bounds import RETRY_AFTER_S

REFUSED_BODY: Final = b'{"error":"refused"}'
_JSON: Final = "application/json"


def refusal(status: int = 403) -> Response:
    """Return a refusal: its status is all that it tells."""
    headers = {"retry-after": str(RETRY_AFTER_S)} if status == 503 else None
    return Response(REFUSED_BODY, status, headers, _JSON)


def signed(
    text: str | None, status: int, *, when_sent: Callable[[], None] | None = None
) -> Response:
    """Return an answer that is a signed envelope; a refusal when there is no key to sign with.

    `when_sent` is called in a thread when the last byte was handed to the connection.
    """
    if text is None:
        return refusal()
    task = None if when_sent is None else BackgroundTask(when_sent)
    return Response(text, status, None, _JSON, task)
