"""A `ping` payload: an object without fields. Pure, and the same for sender and host."""

from __future__ import annotations

from collections.abc import Mapping

from contracts.errors import InvalidRequest, Problem
from contracts.ping import PingRequest
from validation.paths import Grammar


def check_ping(payload: Mapping[str, object], _grammar: Grammar = "any") -> PingRequest:
    """Return the request in `payload`. Raises InvalidRequest when it has a field."""
    if payload:
        raise InvalidRequest([Problem("payload", "has fields", "a ping has none: send {}")])
    return PingRequest()
