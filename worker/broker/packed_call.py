"""The one field of an RQ job that is read: unpacked under a bound, parsed strictly, found to be a
call of our entry with exactly one string. Pure; imports nothing that it is told to."""

from __future__ import annotations

import zlib
from typing import Final

from contracts import limits, naming
from contracts.errors import InvalidRequest
from contracts.strict_json import JsonValue, parse_strict

# What RQ writes for a call: name, instance, arguments, keyword arguments.
_CALL_PARTS: Final = 4


class Poisoned(Exception):
    """An entry of a queue that cannot be a job of ours. `reason` is a stable word; nothing of what
    was found is repeated. `job_id` is empty when the id itself is bad."""

    def __init__(self, reason: str, job_id: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.job_id = job_id


def inflate(packed: bytes, job_id: str) -> bytes:
    """Unpack at most what a job may be: a bomb stops there, whatever it promises.

    Raises Poisoned (`not_packed`, `too_large`).
    """
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(packed, limits.STORED_JOB_MAX_BYTES)
    except zlib.error as error:
        raise Poisoned("not_packed", job_id) from error
    if not unpacker.eof:
        raise Poisoned("too_large" if unpacker.unconsumed_tail else "not_packed", job_id)
    return data


def read_call(data: bytes, job_id: str) -> list[JsonValue]:
    """Return the four parts of RQ's call if it is one of ours.

    Raises Poisoned (`not_json`, `not_a_call`, `foreign_function`, `foreign_arguments`).
    """
    try:
        call = parse_strict(data, field="job", max_bytes=limits.STORED_JOB_MAX_BYTES)
    except InvalidRequest as error:
        raise Poisoned("not_json", job_id) from error
    if not isinstance(call, list) or len(call) != _CALL_PARTS:
        raise Poisoned("not_a_call", job_id)
    _check_call(call, job_id)
    return call


def _check_call(call: list[JsonValue], job_id: str) -> None:
    name, instance, arguments, keywords = call
    if name != naming.ENTRY_PATH:
        raise Poisoned("foreign_function", job_id)
    if instance is not None or keywords != {}:
        raise Poisoned("foreign_arguments", job_id)
    if not isinstance(arguments, list) or len(arguments) != 1 or not isinstance(arguments[0], str):
        raise Poisoned("foreign_arguments", job_id)
