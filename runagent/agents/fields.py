"""Reading fields of lines that nobody vouches for.

Owns the one lenient way to take a JSON object apart: a missing or re-typed field reads as empty,
deep nesting and broken text read as nothing. It must never raise for anything a CLI prints.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from contracts.events import Event, EventKind

Reader = Callable[[dict[str, Any]], Sequence[Event] | None]


def read_object(line: str) -> dict[str, Any] | None:
    """Return the JSON object that `line` is, or None when it is anything else."""
    text = line.strip()
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_typed(line: str, readers: Mapping[str, Reader]) -> Sequence[Event] | None:
    """Return what the reader of the line's `type` makes of it: () for a line that says nothing or
    is no object at all, None for an object that nobody here can read."""
    data = read_object(line)
    if data is None:
        return None if line.lstrip().startswith("{") else ()
    read = readers.get(text_at(data, "type"))
    return read(data) if read else None


def read_nothing(_data: dict[str, Any]) -> Sequence[Event]:
    """Read a line of a known type that says nothing of use."""
    return ()


def text_at(data: object, *path: str) -> str:
    """Return the string at `path` in nested objects; "" when there is none. Lone surrogates,
    which JSON can spell and UTF-8 cannot, become question marks."""
    value = value_at(data, *path)
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def object_at(data: object, *path: str) -> dict[str, Any]:
    """Return the object at `path`; {} when there is none."""
    value = value_at(data, *path)
    return value if isinstance(value, dict) else {}


def list_at(data: object, *path: str) -> list[Any]:
    """Return the list at `path`; [] when there is none."""
    value = value_at(data, *path)
    return value if isinstance(value, list) else []


def number_at(data: object, *path: str) -> float | None:
    """Return the number at `path` as a double, None when there is none or it is no number that
    anything can be counted with: NaN, infinity, and integers beyond what a double holds."""
    return plain_number(value_at(data, *path))


def plain_number(value: object) -> float | None:
    """Return `value` as a finite double, None for anything that is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def value_at(data: object, *path: str) -> object:
    """Return whatever is at `path` in nested objects; None when there is nothing."""
    for name in path:
        if not isinstance(data, dict):
            return None
        data = data.get(name)
    return data


def tool_call(tool: str, call_id: str, value: object) -> Event:
    """Return the event of a tool call, its input whole, as JSON text unless it is text already: it
    is cut when it was redacted, and not before."""
    text = value if isinstance(value, str) else json.dumps(value)
    shown = text.encode("utf-8", "replace").decode("utf-8")
    return Event(kind=EventKind.TOOL_CALL, text=tool, data={"callId": call_id, "input": shown})
