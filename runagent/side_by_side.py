"""Two questions at once, where neither needs the answer of the other: a core is idle otherwise."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_One = TypeVar("_One")
_Other = TypeVar("_Other")


def side_by_side(one: Callable[[], _One], other: Callable[[], _Other]) -> tuple[_One, _Other]:
    """Return what both return; `one` is called in a thread of its own. Raises what either raises,
    once both have ended; of two errors that of `other`."""
    with ThreadPoolExecutor(1, "side by side") as pool:
        first = pool.submit(one)
        second = other()
    return first.result(), second
