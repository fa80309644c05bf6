"""Asking for one thing once: what was asked for, as digests, and where two askings differ. Pure.

No value is kept, only a digest for each field, so that the record holds no task and a difference
can still be named.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Final

from contracts.errors import InvalidRequest, Problem, Refused

_KEY_MAX_CHARS: Final = 200


def checked_key(key: object) -> str:
    """Return `key` if it is 1 to 200 printable characters; raises InvalidRequest otherwise."""
    if isinstance(key, str) and 0 < len(key) <= _KEY_MAX_CHARS and key.isprintable():
        return key
    remedy = f"1 to {_KEY_MAX_CHARS} printable characters"
    raise InvalidRequest([Problem("idempotency-key", "is not a key", remedy)])


def asked_text(
    payload: Mapping[str, object], *, kind: str, lane: str, targets: Sequence[str] | None
) -> str:
    """Return one digest for each thing that was asked for, as JSON text.

    How long a job may wait is no part of it: the first call's answer to that holds.
    """
    fields = {f"payload.{name}": value for name, value in payload.items()}
    fields |= {"kind": kind, "lane": lane, "targets": None if targets is None else list(targets)}
    return json.dumps({name: _digest(fields[name]) for name in sorted(fields)})


def check_same(held: str, asked: str, key: str) -> None:
    """Raise Refused (`key_reused`), naming each difference, unless both texts ask for the same."""
    before, now = json.loads(held), json.loads(asked)
    differ = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    if differ:
        raise Refused(
            f"the key {key!r} was used for another job: {', '.join(differ)} differ",
            code="key_reused",
            remedy="use a new key for a new job, or ask for exactly the same",
        )


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
