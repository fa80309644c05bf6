"""Versions of CLIs: read from what `--version` prints, and held against what was tested. Pure."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from runagent.clis.facts import CliFacts, Version

_VERSION: Final = re.compile(r"\d{1,9}(?:\.\d{1,9})+[A-Za-z0-9.+-]{0,32}", re.ASCII)
_NUMBERS: Final = re.compile(r"\d{1,9}(?:\.\d{1,9}){1,5}", re.ASCII)


class Standing(StrEnum):
    """How a version stands to those that were tested."""

    TESTED = "tested"
    OLDER = "older"
    NEWER = "newer"
    UNKNOWN = "unknown"


def read_version(printed: str) -> str:
    """Return the first version in `printed`, "" when there is none."""
    found = _VERSION.search(printed)
    return found.group() if found else ""


def standing(version: str, facts: CliFacts) -> Standing:
    """Return how `version` stands to the tested ones. Between the oldest and the newest counts as
    tested."""
    numbers = _NUMBERS.match(version)
    if numbers is None or facts.tested is None:
        return Standing.UNKNOWN
    found: Version = tuple(int(part) for part in numbers.group().split("."))
    oldest, newest = facts.tested
    if found < oldest:
        return Standing.OLDER
    return Standing.NEWER if found[: len(newest)] > newest else Standing.TESTED


def words_of_tested(facts: CliFacts) -> str:
    """Return the tested versions for people."""
    if facts.tested is None:
        return "none"
    oldest, newest = (".".join(map(str, version)) for version in facts.tested)
    return oldest if oldest == newest else f"{oldest} to {newest}"
