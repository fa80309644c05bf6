"""An event as it may leave the agent's output: redacted, inert, and bounded. Pure.

Owns the cuts: a tool's input of more than 2 000 characters becomes its size and a preview, a text
is cut at 16 000, and data at a depth, a length and a number of items. Redacted before it is cut, so
that no half of a secret is left.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from contracts import limits
from contracts.events import Event, EventKind
from validation.inert import inert
from validation.redaction import Redactor

_DEPTH_MAX: Final = 6
_ITEMS_MAX: Final = 50
_WORD_MAX_CHARS: Final = 2_000
_INT_MAX: Final = limits.JSON_INT_MAX


def shown(event: Event, redactor: Redactor) -> Event:
    """Return `event` fit for the log."""
    text = inert(redactor.redact(event.text))
    cut = text[: limits.EVENT_TEXT_MAX_CHARS]
    data = {name: _plain(value, redactor, 1) for name, value in event.data.items()}
    if event.kind is EventKind.TOOL_CALL and "input" in event.data:
        data["input"] = shown_input(event.data["input"], redactor)
    if len(cut) < len(text):
        data["textChars"] = len(text)
    return Event(kind=event.kind, text=cut, data=data)


def shown_input(value: object, redactor: Redactor) -> Any:
    """Return a tool's input: the value itself when its JSON is at most 2 000 characters long, else
    `{"truncated": true, "bytes": N, "preview": …}`; N is the size of the whole."""
    whole = value if isinstance(value, str) else json.dumps(value, default=str)
    told = redactor.redact(_redacted_inside(whole, redactor))
    if len(told) > limits.EVENT_INPUT_MAX_CHARS:
        size = len(whole.encode("utf-8", "replace"))
        preview = inert(told[: limits.EVENT_INPUT_MAX_CHARS])
        return {"truncated": True, "bytes": size, "preview": preview}
    try:
        return _plain(json.loads(told), redactor, 1)
    except (ValueError, RecursionError):
        return inert(told)


def _redacted_inside(text: str, redactor: Redactor) -> str:
    """Return the JSON in `text` with its strings redacted as they are meant: escaped, a secret with
    a quote, a line end or an accent looks like another word. Other text stays as it is."""
    try:
        return json.dumps(_each_redacted(json.loads(text), redactor), ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _each_redacted(value: object, redactor: Redactor) -> object:
    if isinstance(value, str):
        return redactor.redact(value)
    if isinstance(value, dict):
        return {redactor.redact(k): _each_redacted(v, redactor) for k, v in value.items()}
    if isinstance(value, list):
        return [_each_redacted(item, redactor) for item in value]
    return value


def _plain(value: object, redactor: Redactor, depth: int) -> Any:
    if isinstance(value, str):
        return inert(redactor.redact(value))[:_WORD_MAX_CHARS]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return max(-_INT_MAX, min(value, _INT_MAX))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth >= _DEPTH_MAX:
        return "…"
    if isinstance(value, dict):
        items = list(value.items())[:_ITEMS_MAX]
        return {
            inert(redactor.redact(str(name)))[:_WORD_MAX_CHARS]: _plain(item, redactor, depth + 1)
            for name, item in items
        }
    if isinstance(value, list | tuple):
        return [_plain(item, redactor, depth + 1) for item in value[:_ITEMS_MAX]]
    return inert(str(value))[:_WORD_MAX_CHARS]
