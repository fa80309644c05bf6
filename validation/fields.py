"""Field names that a request does not have, and the one that was probably meant.

Owns the suggestions. It must never accept a near miss: an unknown field is refused by name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Container, Iterable, Sequence
from typing import Final

from contracts.errors import Problem

_SHOWN_MAX_CHARS: Final = 64
_LISTED_MAX: Final = 20  # a payload of 100 000 unknown fields still gets a message one can read
_PLAIN: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{_SHOWN_MAX_CHARS}}}")

# What people write for a field: the options of the local verb, other casings, near words.
_MEANT: Final = {
    "timeout": "timeoutSec",
    "timeouts": "timeoutSec",
    "timeoutseconds": "timeoutSec",
    "validate": "validateCommand",
    "validatecmd": "validateCommand",
    "validation": "validateCommand",
    "validationcommand": "validateCommand",
    "prompt": "task",
    "brief": "task",
    "taskfile": "task",
    "repository": "repo",
    "path": "repo",
    "base": "branch",
    "ref": "branch",
    "baseref": "branch",
    "adapter": "agent",
}


def unknown_field_problems(names: Iterable[object], fields: Sequence[str]) -> list[Problem]:
    """Return one problem for each of `names` that is not among `fields`, at most 20 and a rest."""
    unknown = [name for name in names if name not in fields]
    problems = [_unknown(name, fields) for name in unknown[:_LISTED_MAX]]
    if len(unknown) > _LISTED_MAX:
        rest = len(unknown) - _LISTED_MAX
        problems.append(Problem("payload", f"has {rest} more unknown fields", "remove them"))
    return problems


def missing_problems(names: Container[object], required: Sequence[str]) -> list[Problem]:
    """Return one problem for each of `required` that is not among `names`."""
    missing = [name for name in required if name not in names]
    return [Problem(name, "is missing", "it is required") for name in missing]


def suggested_field(name: str, fields: Sequence[str]) -> str | None:
    """Return the field that was probably meant by `name`, or None."""
    key = re.sub(r"[^a-z0-9]", "", name[:_SHOWN_MAX_CHARS].casefold())
    by_key = {field.casefold(): field for field in fields}
    meant = by_key.get(key) or _MEANT.get(key)
    if meant in fields:
        return meant
    close = difflib.get_close_matches(key, list(by_key), n=1, cutoff=0.75)
    return by_key[close[0]] if close else None


def _unknown(name: object, fields: Sequence[str]) -> Problem:
    text = name if isinstance(name, str) else f"a key of type {type(name).__name__}"
    shown = text if _PLAIN.fullmatch(text) else ascii(text[:_SHOWN_MAX_CHARS])
    meant = suggested_field(text, fields)
    remedy = f"did you mean {meant}?" if meant else f"the fields are {', '.join(fields)}"
    return Problem(shown, "is an unknown field", remedy)
