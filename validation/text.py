"""Foreign text made fit for a result: whole characters, bounded length, one line.

Owns how a text is cut and escaped for show. It must never decide what a text means.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


def whole(text: str) -> str:
    """Return `text` without lone surrogates, which no JSON can carry; each becomes `?`."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def shortened(text: str, max_chars: int) -> str:
    """Return `text`, or its beginning and its end with a mark between them: `max_chars` at most."""
    if len(text) <= max_chars:
        return whole(text)
    mark = f" […{len(text) - max_chars} characters…] "
    room = max(max_chars - len(mark), 2)
    return whole((text[: room - room // 2] + mark + text[len(text) - room // 2 :])[:max_chars])


def shown_name(name: str) -> str:
    """Return a file name as one would type it: quoted where it has spaces, escaped where it has
    control characters or bytes that are not UTF-8."""
    if _PLAIN_NAME.fullmatch(name):
        return name
    if not name.isprintable():
        return ascii(name)
    return shlex.quote(name)
