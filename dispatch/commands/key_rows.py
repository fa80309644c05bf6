"""How identities and grants are shown by the verbs of `keys`. No secret is ever in a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dispatch.times import rfc3339

if TYPE_CHECKING:
    from dispatch.key_records import Grant, Granted, Master


def grant_row(item: Granted | Grant) -> dict[str, Any]:
    """Return a grant, or the note of one, as JSON shows it."""
    return {
        "sender": item.iss,
        "generation": item.generation,
        "host": item.host,
        "lanes": list(item.lanes),
        "from": rfc3339(item.nbf),
        "until": rfc3339(item.exp),
    }


def master_row(item: Master) -> dict[str, Any]:
    """Return one generation of a sender as JSON shows it."""
    return {
        "sender": item.iss,
        "generation": item.generation,
        "alg": item.alg,
        "from": rfc3339(item.nbf),
        "until": rfc3339(item.exp),
    }
