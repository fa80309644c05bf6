"""Words of unknown origin made fit to be shown: nothing in them acts on a terminal or a page.

Owns the one way in which the text of an agent, a tool, a stranger or a file name reaches a person:
terminal sequences vanish, control characters and what reorders or hides text become U+FFFD, and
the length is bounded. It must never change raw output that is kept as evidence.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_SEQUENCES: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-9;?<=>]*[ -/]*[@-~]"  # colours, cursor
    # Titles, links, clipboard. The next opening ends the search for the end of this one: a megabyte
    # of openings would else be read some thousand times over.
    r"|[\x1b\x9d]\]?[^\x07\x1b\x9c\x9d]{0,4000}?(?:\x07|\x1b\\|\x9c)"
)
# Cc: control, Cf: invisible format (direction, zero width, tags), Cs: half a character, Zl and Zp:
# line ends of another kind, Co and Cn: what no two terminals show alike.
_ACTING: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn"})
_KEPT: Final = frozenset("\t\n")
_MARK: Final = "\ufffd"


class _Shown(dict[int, str]):
    """What each character is shown as, found out when it is first met."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        acts = unicodedata.category(character) in _ACTING and character not in _KEPT
        shown = self[code] = _MARK if acts else character
        return shown


_SHOWN: Final = _Shown()


def inert(text: str) -> str:
    """Return `text` as nothing but visible characters, tabs and newlines."""
    return _SEQUENCES.sub("", text.replace("\r\n", "\n")).translate(_SHOWN)


def one_line(text: str, max_chars: int, *, keep_spaces: bool = False) -> str:
    """Return `text` on one line, inert, cut to `max_chars` with an ellipsis. Runs of white space
    become one space, unless `keep_spaces`: then each line end and tab does."""
    shown = inert(text)
    flat = re.sub(r"[\n\t]", " ", shown) if keep_spaces else " ".join(shown.split())
    return flat if len(flat) <= max_chars else f"{flat[: max_chars - 1]}…"


def inert_json(document: str) -> str:
    """Return JSON that means the same and holds no character which a terminal would act on."""
    return document.translate(_ESCAPED)


class _Escaped(dict[int, str]):
    """As _Shown, with JSON's own way to write a character that acts."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        acts = unicodedata.category(character) in _ACTING and character != "\n"
        shown = self[code] = _escape(character) if acts else character
        return shown


def _escape(character: str) -> str:
    pairs = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{pairs[i]:02x}{pairs[i + 1]:02x}" for i in range(0, len(pairs), 2))


_ESCAPED: Final = _Escaped()


def cut(text: str, max_chars: int) -> str:
    """Return the last part of `text` if it is longer than `max_chars`, marked as cut."""
    return text if len(text) <= max_chars else f"…{text[-(max_chars - 1) :]}"


def first_line(data: bytes) -> str:
    """Return the first line of `data` that is not empty, inert, cut at 500 characters."""
    for line in data.decode("utf-8", "replace").splitlines():
        if shown := one_line(line, 500):
            return shown
    return ""


def last_lines(text: str, count: int) -> str:
    """Return the last `count` lines of `text` that are not empty, inert."""
    lines = [line for line in inert(text).splitlines() if line.strip()]
    return "\n".join(lines[-count:])
