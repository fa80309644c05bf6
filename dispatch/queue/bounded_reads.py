"""Reading what anybody may have written: a look at the size first, in the broker, in one step.

A key of ours that holds another type is read as empty: nothing of ours ever stood there. Whoever
writes our keys puts `overwriting` around it: what is of another type gives way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from redis.exceptions import ResponseError

NAME_MAX_BYTES: Final = 64  # of a host, a lane, a sender or a job id

# All are atomic: nothing can be swapped between the look at a size and the read.
_NEWEST: Final = """
local found = {}
for _, name in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, tonumber(ARGV[1]) - 1)) do
    if #name <= tonumber(ARGV[2]) then
        found[#found + 1] = name
        found[#found + 1] = redis.call('ZSCORE', KEYS[1], name)
    end
end
return found
"""
_FIELDS: Final = """
local found = {}
for i = 2, #ARGV do
    if redis.call('HSTRLEN', KEYS[1], ARGV[i]) <= tonumber(ARGV[1]) then
        found[#found + 1] = redis.call('HGET', KEYS[1], ARGV[i])
    else
        found[#found + 1] = false
    end
end
return found
"""
_ALL_FIELDS: Final = """
local found = {}
if redis.call('HLEN', KEYS[1]) > tonumber(ARGV[1]) then return found end
for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
    local is_short = redis.call('HSTRLEN', KEYS[1], name) <= tonumber(ARGV[3])
    if is_short and #name <= tonumber(ARGV[2]) then
        found[#found + 1] = name
        found[#found + 1] = redis.call('HGET', KEYS[1], name)
    end
end
return found
"""
_ITEMS: Final = """
local found = {}
for _, item in ipairs(redis.call('LRANGE', KEYS[1], 0, tonumber(ARGV[1]) - 1)) do
    if #item <= tonumber(ARGV[2]) then found[#found + 1] = item end
end
return found
"""


def run_reading(connection: Any, script: str, keys: Sequence[str], *arguments: object) -> Any:
    """Run a script that only reads, with no more than the right to read `keys`.

    A server before 7.0 knows scripts of one kind only. Raises redis's errors.
    """
    words = (script, len(keys), *keys, *map(str, arguments))
    try:
        return connection.eval_ro(*words)
    except ResponseError as error:
        if "unknown command" not in str(error).lower():
            raise
    return connection.eval(*words)


def is_wrong_type(error: Exception) -> bool:
    """Say whether the broker refused because the key holds another type."""
    return isinstance(error, ResponseError) and "WRONGTYPE" in str(error)


def read_newest(connection: Any, key: str, count: int) -> list[tuple[str, float]]:
    """Return (name, score) of at most `count` members of a sorted set, highest score first.

    Members longer than a name are left out.
    """
    found = _eval(connection, _NEWEST, key, count, NAME_MAX_BYTES)
    return [(_text(name), float(score or 0)) for name, score in _pairs(found)]


def read_fields(
    connection: Any, key: str, names: Sequence[str], *, max_bytes: int
) -> dict[str, str]:
    """Return those fields of a hash that are there and no longer than `max_bytes`."""
    found = _eval(connection, _FIELDS, key, max_bytes, *names)
    pairs = zip(names, found, strict=False)
    return {name: _text(value) for name, value in pairs if value is not None}


def read_small_hash(
    connection: Any, key: str, *, max_fields: int, max_bytes: int
) -> dict[str, str]:
    """Return the fields of a hash whose names are short and whose values are at most `max_bytes`;
    {} for a hash of more than `max_fields`."""
    found = _eval(connection, _ALL_FIELDS, key, max_fields, NAME_MAX_BYTES, max_bytes)
    return {_text(name): _text(value) for name, value in _pairs(found)}


def read_items(
    connection: Any, key: str, count: int, *, max_bytes: int = NAME_MAX_BYTES
) -> list[str]:
    """Return the first `count` items of a list, those beyond `max_bytes` (of a name) left out."""
    return [_text(item) for item in _eval(connection, _ITEMS, key, count, max_bytes)]


def overwriting(connection: Any, key: str, write: Callable[[], object]) -> None:
    """Do `write`; what stands at `key` with another type is removed first if it must be.

    May raise redis's errors.
    """
    try:
        write()
    except ResponseError as error:
        if not is_wrong_type(error):
            raise
        connection.unlink(key)
        write()


def _eval(connection: Any, script: str, key: str, *arguments: object) -> list[bytes | None]:
    try:
        found: list[bytes | None] = run_reading(connection, script, [key], *arguments)
    except ResponseError as error:
        if not is_wrong_type(error):
            raise
        return []
    return found


def _pairs(flat: Sequence[bytes | None]) -> list[tuple[bytes | None, bytes | None]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")
