"""JSON read strictly, so that two programs can never read one document in two ways.

Refused: bytes that are not UTF-8, a byte order mark, a repeated key, a float, NaN, Infinity, an
integer beyond 2^53-1, a lone surrogate, nesting deeper than 16, more parts or bytes than allowed.
"""

from __future__ import annotations

import json
import re
from typing import Final, Never, TypeAlias

from contracts.errors import InvalidRequest, Problem
from contracts.limits import JSON_DEPTH_MAX, JSON_INT_MAX, JSON_PARTS_MAX, PAYLOAD_MAX_BYTES

JsonValue: TypeAlias = "None | bool | int | str | list[JsonValue] | dict[str, JsonValue]"

# sys.int_info guards conversion at 4300 digits; a number of ours never has more than 16 + sign.
_INT_MAX_CHARS: Final = 17
# A string that never ends is stepped over as well, and nothing is tried twice: hostile text is read
# in linear time.
_TEXT: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+'
_STRING: Final = re.compile(_TEXT, re.DOTALL)
_PART: Final = re.compile(_TEXT + r"|[\[\]{},]", re.DOTALL)


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class _Refusal(ValueError):
    """Raised inside the parser's hooks; translated at the border of this module."""


def parse_strict(
    data: bytes, *, field: str = "json", max_bytes: int = PAYLOAD_MAX_BYTES
) -> JsonValue:
    """Return the value of the one JSON document in `data`.

    Raises InvalidRequest naming `field` and what is wrong; the content is never repeated.
    """
    if len(data) > max_bytes:
        raise _invalid(field, f"is {len(data)} bytes", f"at most {max_bytes} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _invalid(
            field, f"is not UTF-8 at byte {error.start}", "encode it as UTF-8"
        ) from error
    if text.startswith("\ufeff"):
        raise _invalid(field, "starts with a byte order mark", "write it without one")
    _check_shape(text, field)
    try:
        value: JsonValue = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        where = f"is not JSON{_where(error, text)}"
        raise _invalid(field, where, "check it with a JSON tool") from error
    except (_Refusal, ValueError, RecursionError) as error:
        remedy = "keys once, whole numbers within 2^53-1, no NaN"
        raise _invalid(field, str(error), remedy) from error
    if "\\u" in text:  # in UTF-8 a surrogate can stand alone as an escape only
        _check_strings(value, field)
    return value


def parse_strict_object(
    data: bytes, *, field: str = "json", max_bytes: int = PAYLOAD_MAX_BYTES
) -> dict[str, JsonValue]:
    """Return the JSON object in `data`; raise InvalidRequest if it is anything else."""
    value = parse_strict(data, field=field, max_bytes=max_bytes)
    if not isinstance(value, dict):
        raise _invalid(field, "is not a JSON object", "wrap it in { }")
    return value


def dump_strict(value: JsonValue, *, field: str = "json") -> bytes:
    """Return compact UTF-8 JSON which `parse_strict` accepts.

    Raises InvalidRequest naming `field` when the value holds what strict JSON refuses.
    """
    try:
        data = _ENCODER.encode(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise _invalid(field, "cannot be written as strict JSON", "use JSON's own types") from error
    if len(data) > PAYLOAD_MAX_BYTES or not _is_plainly_strict(value):
        parse_strict(data, field=field)
    return data


def _is_plainly_strict(value: JsonValue) -> bool:
    """Say whether `value`, which JSON can hold, is strict by its types and size alone.

    Faster than reading back what was written. False decides nothing: then it is read back.
    """
    level: list[JsonValue] = [value]
    parts = 0
    for _ in range(JSON_DEPTH_MAX):
        inner: list[JsonValue] = []
        for item in level:
            held = _held_by(item)
            if held is None:
                return False
            inner += held
        parts += 4 * len(level)  # an item has at most a key, two brackets and a comma
        if parts > JSON_PARTS_MAX:
            return False
        if not inner:
            return True
        level = inner
    return False


def _held_by(item: JsonValue) -> list[JsonValue] | None:
    """Return what `item` holds, nothing for a value without parts; None when it is not exactly of
    JSON's own types and bounds."""
    if type(item) is dict:
        return list(item.values()) if all(type(key) is str for key in item) else None
    if type(item) is list:
        return item
    if type(item) is int:
        return [] if abs(item) <= JSON_INT_MAX else None
    return [] if item is None or type(item) in (str, bool) else None


def _invalid(field: str, message: str, remedy: str) -> InvalidRequest:
    return InvalidRequest([Problem(field, message, remedy)])


def _where(error: json.JSONDecodeError, text: str) -> str:
    """Return where the parser stopped: the column, and the line of a text that has several."""
    line = f" at line {error.lineno}," if "\n" in text else " at"
    return f"{line} column {error.colno}"


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _Refusal("has a key twice in one object")
    return value


def _no_float(_text: str) -> Never:
    raise _Refusal("has a number that is not an integer")


def _no_constant(_text: str) -> Never:
    raise _Refusal("has NaN or Infinity")


def _integer(text: str) -> int:
    if len(text) > _INT_MAX_CHARS or abs(number := int(text)) > JSON_INT_MAX:
        raise _Refusal("has an integer beyond 2^53-1")
    return number


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_float=_no_float,
    parse_int=_integer,
    parse_constant=_no_constant,
)


def _check_shape(text: str, field: str) -> None:
    """Count parts and nesting before the parser builds anything; strings are stepped over whole."""
    frame, strings = _STRING.subn("", text)
    opening = frame.count("[") + frame.count("{")
    marks = opening + frame.count("]") + frame.count("}") + frame.count(",")
    if opening <= JSON_DEPTH_MAX and strings + marks <= JSON_PARTS_MAX:
        return  # not enough of either: no need to look at one after the other
    depth = 0
    for parts, match in enumerate(_PART.finditer(text)):
        if parts >= JSON_PARTS_MAX:
            raise _invalid(field, f"has more than {JSON_PARTS_MAX} parts", "send less at once")
        mark = text[match.start()]
        if mark in "[{":
            depth += 1
            if depth > JSON_DEPTH_MAX:
                raise _invalid(field, f"nests deeper than {JSON_DEPTH_MAX}", "flatten it")
        elif mark in "]}":
            depth -= 1


def _check_strings(value: JsonValue, field: str) -> None:
    pending: list[JsonValue] = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending.extend(item.keys())
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, str) and not item.isascii():
            try:
                item.encode("utf-8")
            except UnicodeEncodeError as error:
                raise _invalid(field, "has a lone surrogate", "send whole characters") from error
