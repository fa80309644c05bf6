"""The payload of a job as a verb is given it: a file, or standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from contracts import limits
from contracts.errors import InvalidRequest, Problem
from contracts.strict_json import JsonValue, parse_strict_object


def read_payload(file: str) -> dict[str, JsonValue]:
    """Return the JSON object in `file`; "-" is standard input. Raises InvalidRequest naming the
    file."""
    limit = limits.PAYLOAD_MAX_BYTES
    try:
        if file == "-":
            data = sys.stdin.buffer.read(limit + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(limit + 1)
    except OSError as error:
        problem = Problem("--payload-file", f"cannot be read: {error.strerror}", "check the path")
        raise InvalidRequest([problem]) from error
    return parse_strict_object(data, field=f"--payload-file {file}", max_bytes=limit)
