"""Job ids: made here, and checked here before any path, ref or key is built from one; beside them
the other short texts whose form is checked: names, audiences, digests."""

from __future__ import annotations

import re
import secrets
from typing import Final

from contracts.errors import InvalidRequest, Problem

_JOB_ID: Final = re.compile(r"[a-z0-9]{16,32}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def new_job_id() -> str:
    """Return a fresh job id: 20 hexadecimal digits, 80 random bits."""
    return secrets.token_hex(10)


def is_job_id(text: object) -> bool:
    """Say whether `text` is a job id: 16 to 32 of `[a-z0-9]`, the whole string."""
    return isinstance(text, str) and _JOB_ID.fullmatch(text) is not None


def checked_job_id(text: object) -> str:
    """Return `text` if it is a job id.

    Raises InvalidRequest otherwise; the message does not repeat the text.
    """
    if isinstance(text, str) and _JOB_ID.fullmatch(text) is not None:
        return text
    raise InvalidRequest(
        [Problem("jobId", "is not a job id", "16 to 32 lower-case letters and digits")]
    )


def is_name(text: object) -> bool:
    """Say whether `text` can name a host, a lane or a sender: up to 64 of `[A-Za-z0-9._-]`,
    starting with a letter or a digit."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def is_audience(text: object) -> bool:
    """Say whether `text` is an audience claim: `host:NAME` or `lane:NAME`."""
    kind, _, name = text.partition(":") if isinstance(text, str) else ("", "", "")
    return kind in ("host", "lane") and is_name(name)


def is_sha256(text: object) -> bool:
    """Say whether `text` is the hexadecimal digest of SHA-256, in lower case."""
    return isinstance(text, str) and _SHA256.fullmatch(text) is not None


def checked_name(text: object, field: str) -> str:
    """Return `text` if it can name a host, a lane or a sender.

    Raises InvalidRequest naming `field` otherwise; the message does not repeat the text.
    """
    if isinstance(text, str) and _NAME.fullmatch(text) is not None:
        return text
    raise InvalidRequest(
        [
            Problem(
                field, "is not a name", "letters, digits, '.', '_' and '-', 64 characters at most"
            )
        ]
    )
