"""Making words of unknown origin fit to be shown.

Owns the one way in which an agent's or a tool's text reaches a person: control characters,
terminal sequences and the marks that reorder text are taken out, and the length is bounded. It
must never change raw output that is kept as evidence.
"""

from __future__ import annotations

import re
from typing import Final

_SEQUENCES: Final = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]"  # colours, cursor
    # Titles, links, clipboard. The next opening ends the search for the end of this one: a megabyte
    # of openings would else be read some thousand times over.
    r"|[\x1b\x9d]\]?[^\x07\x1b\x9c\x9d]{0,4000}?(?:\x07|\x1b\\|\x9c)"
)
# C0 and C1 without tab and newline, then what reorders or hides text: bidi controls and marks,
# zero-width characters, line and paragraph separators, the byte order mark, tag characters.
_UNSHOWABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)


def inert(text: str) -> str:
    """Return `text` as nothing but visible characters, tabs and newlines."""
    text = _SEQUENCES.sub("", text.replace("\r\n", "\n"))
    return _UNSHOWABLE.sub("\ufffd", text)


def one_line(text: str, max_chars: int) -> str:
    """Return `text` on one line, inert, cut to `max_chars` with an ellipsis."""
    flat = " ".join(inert(text).split())
    return flat if len(flat) <= max_chars else f"{flat[: max_chars - 1]}…"


def cut(text: str, max_chars: int) -> str:
    """Return the last part of `text` if it is longer than `max_chars`, marked as cut."""
    return text if len(text) <= max_chars else f"…{text[-(max_chars - 1) :]}"


def first_line(data: bytes) -> str:
    """Return the first line of `data` that is not empty, inert, cut at 500 characters."""
    for line in data.decode("utf-8", "replace").splitlines():
        if shown := one_line(line, 500):
            return shown
    return ""


def last_lines(data: bytes, count: int) -> str:
    """Return the last `count` lines of `data` that are not empty, inert."""
    lines = [line for line in inert(data.decode("utf-8", "replace")).splitlines() if line.strip()]
    return "\n".join(lines[-count:])
