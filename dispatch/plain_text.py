"""Text of strangers made harmless for a terminal: no escapes, no hidden direction, one line."""

from __future__ import annotations

import unicodedata
from typing import Final

# Cc: control, Cf: invisible format (direction overrides), Cs: half a character, Zl/Zp: line ends.
_REFUSED: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn"})


def plain(text: str, *, max_chars: int = 500) -> str:
    """Return `text` on one line with everything that is not shown as itself replaced by `?`."""
    kept = "".join(
        "?" if unicodedata.category(character) in _REFUSED else character
        for character in text[: max_chars + 1]
    )
    return kept if len(kept) <= max_chars else f"{kept[: max_chars - 1]}…"


def inert_json(document: str) -> str:
    """Return JSON that means the same and holds no character which a terminal would act on."""
    return "".join(
        character
        if character == "\n" or unicodedata.category(character) not in _REFUSED
        else _escaped(character)
        for character in document
    )


def _escaped(character: str) -> str:
    pairs = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{pairs[i]:02x}{pairs[i + 1]:02x}" for i in range(0, len(pairs), 2))
