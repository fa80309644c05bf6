"""Is a JSON Schema an additive change of an older one? A pure comparison, for the golden tests.

A removed, renamed or re-typed field breaks readers; a field that is newly required breaks writers;
one that is no longer required breaks readers that count on it. New optional fields pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]


def breaking_changes(old: Schema, new: Schema) -> list[str]:
    """Return each change from `old` to `new` that is more than an addition; empty when none is."""
    return sorted(set(_Comparison(old, new).walk(old, new, "", frozenset())))


class _Comparison:
    """Two documents, whose parts refer to each one's own definitions."""

    def __init__(self, old: Schema, new: Schema) -> None:
        self._old, self._new = old, new

    def walk(self, old: Schema, new: Schema, path: str, seen: frozenset[str]) -> Iterator[str]:
        """Yield what breaks between two parts at `path`; `seen` are the references on the way."""
        reference = old.get("$ref")
        if reference in seen:
            return
        seen |= {reference} if reference else set()
        old, new = _resolved(old, self._old), _resolved(new, self._new)
        where = path or "the document"
        if old.get("type") != new.get("type"):
            yield f"{where}: type {old.get('type')} became {new.get('type')}"
            return
        yield from _values(old, new, where)
        yield from _rules(old, new, where)
        yield from self._fields(old, new, path, seen)
        yield from self._inner(old, new, where, seen)
        yield from self._choices(old, new, where, seen)

    def _fields(self, old: Schema, new: Schema, path: str, seen: frozenset[str]) -> Iterator[str]:
        for name, field in old.get("properties", {}).items():
            inner = f"{path}.{name}" if path else name
            if name in new.get("properties", {}):
                yield from self.walk(field, new["properties"][name], inner, seen)
            else:
                yield f"{inner}: is gone"

    def _inner(self, old: Schema, new: Schema, where: str, seen: frozenset[str]) -> Iterator[str]:
        for key in ("items", "additionalProperties"):
            if not isinstance(old.get(key), dict):
                continue
            if isinstance(new.get(key), dict):
                yield from self.walk(old[key], new[key], f"{where}[]", seen)
            else:
                yield f"{where}: {key} are of any type now"

    def _choices(self, old: Schema, new: Schema, where: str, seen: frozenset[str]) -> Iterator[str]:
        before, after = old.get("anyOf", []), new.get("anyOf", [])
        if len(before) != len(after):
            yield f"{where}: takes other types than before"
            return
        for one, other in zip(before, after, strict=True):
            yield from self.walk(one, other, where, seen)


def _values(old: Schema, new: Schema, where: str) -> Iterator[str]:
    before, after = set(old.get("enum", [])), set(new.get("enum", []))
    if before - after:
        yield f"{where}: without {sorted(before - after)}"
    if after - before:
        yield f"{where}: other values than before"


def _rules(old: Schema, new: Schema, where: str) -> Iterator[str]:
    was_open = old.get("additionalProperties", True) is not False
    if was_open and new.get("additionalProperties", True) is False:
        yield f"{where}: unknown fields are refused now"
    if set(old.get("required", [])) != set(new.get("required", [])):
        yield f"{where}: other fields are required than before"


def _resolved(schema: Schema, root: Schema) -> Schema:
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    found = root["$defs"][reference.removeprefix("#/$defs/")]
    assert isinstance(found, dict)
    return found
