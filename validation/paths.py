"""Absolute paths by two grammars, read as text: a sender names a path of another machine.

Owns what counts as an absolute path and which tricks are refused in one. It must never touch a
disk: whether the path exists is the host's question.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, Literal, TypeAlias

from contracts import limits

Grammar: TypeAlias = Literal["any", "posix", "windows"]

_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")
_UNC: Final = re.compile(r"[\\/]{2}[^\\/?.][^\\/]*[\\/][^\\/]+")
_WINDOWS_FORBIDDEN: Final = re.compile(r'[<>:"|?*]')
# Embeddings and overrides that show a text in another order than it has.
_BIDI: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def path_problem(path: str, grammar: Grammar) -> str | None:
    """Return what keeps `path` from being an absolute path by `grammar`, or None.

    `any` takes a path which is absolute by POSIX or by Windows grammar.
    """
    if len(path) > limits.PATH_MAX_CHARS:
        return f"is {len(path)} characters long"
    if has_control(path):
        return "has a control character or a line break"
    windows = grammar != "posix" and _is_windows_absolute(path)
    posix = grammar != "windows" and path.startswith("/")
    if not windows and not posix:
        return _NOT_ABSOLUTE[grammar]
    parts = path.split("/") if posix else re.split(r"[\\/]", path)
    if any(_climbs(part, loose=not posix) for part in parts):
        return "has a '..' component"
    if not posix and _WINDOWS_FORBIDDEN.search(path[2:]):
        return "has a character that no Windows path may have"
    return None


def has_control(text: str) -> bool:
    """Say whether `text` has a control character, a line break or a change of its reading order."""
    if text.isascii() and text.isprintable():
        return False  # nearly every text, told without a look at each character
    return any(unicodedata.category(char) in ("Cc", "Zl", "Zp") or char in _BIDI for char in text)


_NOT_ABSOLUTE: Final[dict[str, str]] = {
    "any": "is not an absolute path, by POSIX or by Windows grammar",
    "posix": "is not an absolute POSIX path",
    "windows": "is not an absolute Windows path",
}


def _is_windows_absolute(path: str) -> bool:
    r"""A drive with a root, or a share; device paths (`\\?\`, `\\.\`) skip Windows' own checks."""
    return _DRIVE.match(path) is not None or _UNC.match(path) is not None


def _climbs(part: str, *, loose: bool) -> bool:
    """Windows drops dots and spaces at the end of a component, so `.. ` climbs there too."""
    if loose:
        return part.startswith("..") and not part.strip(". ")
    return part == ".."
