"""Moments and spans of time as people read them. Pure; a forged time is shown, never raised."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_LONGEST_S: Final = 9_999 * 86_400.0
_DIGITS_MAX: Final = 15


def rfc3339(seconds: float | None) -> str:
    """Return Unix seconds as a UTC time, "" for None or a time that no calendar has."""
    if seconds is None:
        return ""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return ""


def read_seconds(text: str | None) -> float | None:
    """Return the Unix seconds in decimal `text`, None when that is no such text."""
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > _DIGITS_MAX:
        return None
    return float(text)


def last_seen_words(last_seen: float | None, now: float) -> str:
    """Return `last seen N s ago` or `never seen`."""
    if last_seen is None:
        return "never seen"
    return f"last seen {age_words(now - last_seen)} ago"


def age_words(seconds: float) -> str:
    """Return a span of time in its largest fitting unit: 45 s, 12 min, 5 h, 3 d."""
    whole = int(min(max(seconds, 0.0), _LONGEST_S))  # a forged time may be infinite
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if whole >= 2 * size:
            return f"{whole // size} {unit}"
    return f"{whole} s"
