"""The payload of a job, or of many, as a verb is given it: a file, or standard input."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from contracts import limits
from contracts.errors import InvalidRequest, Problem

if TYPE_CHECKING:
    from contracts.strict_json import JsonValue

_LINES_MAX_BYTES: Final = 96 * 1024 * 1024  # 64 MiB of payloads, and what JSON writes around them


def read_payload(file: str) -> dict[str, JsonValue]:
    """Return the JSON object in `file`; "-" is standard input. Raises InvalidRequest naming the
    file."""
    from contracts.strict_json import parse_strict_object

    limit = limits.PAYLOAD_MAX_BYTES
    return parse_strict_object(_read(file, limit), field=f"--payload-file {file}", max_bytes=limit)


def read_payloads(file: str) -> tuple[list[dict[str, JsonValue] | InvalidRequest], list[str]]:
    """Return the JSON objects in `file`, one a line (NDJSON), and what to call each of them.

    Empty lines are passed over; in the place of a line that cannot be read stands the error that
    says why. Raises InvalidRequest for a file without a payload, and for one of more payloads than
    go at once, which is not taken apart any further.
    """
    from contracts.strict_json import parse_strict_object
    from dispatch.bulk_checks import BULK_MAX_PAYLOADS, named_problems

    field = f"--payload-file {file}"
    data = _read(file, _LINES_MAX_BYTES)
    if len(data) > _LINES_MAX_BYTES:
        remedy = f"at most {_LINES_MAX_BYTES} bytes; split it"
        raise InvalidRequest([Problem(field, "is too large", remedy)])
    payloads: list[dict[str, JsonValue] | InvalidRequest] = []
    places: list[str] = []
    for place, line in _lines(data):
        try:
            payloads.append(parse_strict_object(line, field=place))
        except InvalidRequest as error:
            payloads.append(InvalidRequest(error.problems))  # without the frames that hold the line
        places.append(place)
        if len(payloads) > BULK_MAX_PAYLOADS:
            break
    if len(payloads) > BULK_MAX_PAYLOADS:
        unread = [p for item in payloads if isinstance(item, InvalidRequest) for p in item.problems]
        remedy = f"{BULK_MAX_PAYLOADS} at most; send the rest with a second call"
        many = Problem(field, "holds too many payloads", remedy)
        raise InvalidRequest([*named_problems(unread), many])
    if not payloads:
        problem = Problem(field, "holds no payload", "write one JSON object on each line")
        raise InvalidRequest([problem])
    return payloads, places


def _lines(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield what to call each line that is not empty, and the line; one at a time."""
    for number, line in enumerate(io.BytesIO(data), 1):
        if line.strip():
            yield f"line {number}", line.removesuffix(b"\n")


def _read(file: str, limit: int) -> bytes:
    """Return the bytes in `file`, and one more than `limit` when there are more."""
    try:
        if file == "-":
            return sys.stdin.buffer.read(limit + 1)
        with Path(file).open("rb") as opened:
            return opened.read(limit + 1)
    except OSError as error:
        problem = Problem("--payload-file", f"cannot be read: {error.strerror}", "check the path")
        raise InvalidRequest([problem]) from error
