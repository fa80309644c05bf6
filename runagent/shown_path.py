"""A path as text: git's own bytes made readable without losing what they were."""

from __future__ import annotations

import base64


def display_path(raw: bytes) -> tuple[str, str | None]:
    r"""Return the path as text, and its bytes in base64 when it is not UTF-8 (else None).

    Bytes that are not UTF-8 are shown as `\xNN`; only the base64 tells such a name from one that
    really holds a backslash.
    """
    try:
        return raw.decode("utf-8"), None
    except UnicodeDecodeError:
        return raw.decode("utf-8", "backslashreplace"), base64.b64encode(raw).decode("ascii")
