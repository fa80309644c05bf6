"""What a listener says on standard error: one line per state change, nothing of any payload."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from datetime import UTC, datetime
from typing import Final, Protocol, TextIO

from contracts.clock import Clock
from validation.inert import one_line

_WORD_MAX_CHARS: Final = 2_000


class Say(Protocol):
    """Says that something changed."""

    def __call__(self, what: str, **details: object) -> None:
        """Say `what`, with the few details that place it (job, host, lane, reason)."""
        ...


class Announcer:
    """Writes lines like `2026-01-01T00:00:00Z claimed job=… sender=…` to standard error, or the
    same as JSON objects to standard output; safe between threads."""

    def __init__(
        self, clock: Clock, stream: TextIO | None = None, *, as_json: bool = False
    ) -> None:
        self._clock = clock
        self._as_json = as_json
        self._stream = stream or (sys.stdout if as_json else sys.stderr)
        self._lock = threading.Lock()

    def __call__(self, what: str, **details: object) -> None:
        """See Say. A closed stream is no reason to stop working."""
        moment = datetime.fromtimestamp(self._clock.wall(), UTC).isoformat(timespec="seconds")
        at = moment.replace("+00:00", "Z")
        if self._as_json:
            line = json.dumps({"at": at, "what": what, **details}, default=str)
        else:
            words = [f"{name}={_word(value)}" for name, value in details.items() if value != ""]
            line = " ".join([at, what, *words])
        with self._lock, contextlib.suppress(OSError, ValueError):
            print(line, file=self._stream, flush=True)


def _word(value: object) -> str:
    """Return `value` as one inert word, quoted when it has spaces."""
    text = one_line(str(value), _WORD_MAX_CHARS, keep_spaces=True)
    return f'"{text}"' if " " in text or not text else text
