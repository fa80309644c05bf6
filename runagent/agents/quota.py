"""What one attempt said about limits, and how long it has been trying again because of one.

Owns the running account: the last limit's words, code and end, and since when the CLI has announced
retries without getting on. CLIs hide a limit behind their own retries for minutes (measured: claude
176 s, gemini 235 s). It must never decide a status: `classify` and `reasons` do, after the end.
"""

from __future__ import annotations

from typing import Any, Final

from contracts.events import Event, EventKind
from contracts.reason import ReasonCode
from runagent.agents import fields, trouble

_MESSAGE_CHARS: Final = 1_000
_USED_UP: Final = frozenset({ReasonCode.USAGE_LIMIT, ReasonCode.RATE_LIMIT, ReasonCode.BILLING})


class Quota:
    """Fed with events in their order; `now` is a monotonic time."""

    def __init__(self) -> None:
        self.limited = False
        self.message = ""
        self.code: ReasonCode | None = None
        self.resets_at: Any = None  # the epoch in seconds, as an event had it
        self.retry_after_s: float | None = None
        self.retrying_since: float | None = None
        self.retrying_for: ReasonCode | None = None

    def note_limit(self, event: Event, now: float) -> None:
        """Take in a quota event."""
        status = event.data.get("status")
        if event.data.get("resetsAt") is not None and status != "allowed":
            self.resets_at = event.data["resetsAt"]
        if status not in ("rejected", "retrying"):
            return
        self.limited = True
        self.message = event.text[:_MESSAGE_CHARS] or self.message
        self._note_code(event)
        delay = fields.number_at(event.data, "retryAfterSec")
        if delay is not None:
            self.retry_after_s = delay
        if status == "retrying":
            self._note_retry(self.code or ReasonCode.RATE_LIMIT, now)

    def note_login_retry(self, now: float) -> None:
        """Take in that the CLI tries a login again that was rejected."""
        self._note_retry(ReasonCode.AUTH_EXPIRED, now)

    def get_on(self) -> None:
        """Take in that the agent got on: whatever was reported before did not stop it."""
        self.limited = False
        self.retrying_since = self.retrying_for = None

    def has_tried_for(self, now: float) -> float:
        """Return for how many seconds retries have been announced with nothing in between."""
        return 0.0 if self.retrying_since is None else now - self.retrying_since

    def _note_code(self, event: Event) -> None:
        told = trouble.code_of(event.text)
        code = told if told in _USED_UP else None
        if event.data.get("window"):
            code = ReasonCode.USAGE_LIMIT
        # An account's window explains the 429 that comes after it, and not the other way round.
        if code and not (self.code is ReasonCode.USAGE_LIMIT and code is ReasonCode.RATE_LIMIT):
            self.code = code

    def _note_retry(self, code: ReasonCode, now: float) -> None:
        self.retrying_for = code
        if self.retrying_since is None:
            self.retrying_since = now


def is_progress(event: Event) -> bool:
    """Say whether `event` shows that the model answered again."""
    return event.kind in _GOES_ON


_GOES_ON: Final = frozenset({EventKind.TEXT, EventKind.TOOL_CALL, EventKind.TOOL_RESULT})
