"""Ctrl-C and TERM of the demo: it leaves through every `finally`, and never amid a start.

A process that is started in the very moment of a signal would be nobody's to end, and an exception
that is raised while Python cleans up is dropped: so a signal is noted, waits for the end of a
start, and is asked for again in each wait.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_asked: list[int] = []  # the signals that came
_held: list[bool] = []  # starts in progress


def watch_signals() -> None:
    """Take INT and TERM from here on."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _note)


def leave_if_asked() -> None:
    """Raise SystemExit with the exit code that a shell gives to the signal, if one came."""
    if _asked:
        raise SystemExit(128 + _asked[0])


@contextmanager
def held_back() -> Iterator[None]:
    """Let a signal wait until the end of this block."""
    _held.append(True)
    try:
        yield
    finally:
        _held.pop()


def _note(number: int, _frame: FrameType | None) -> None:
    _asked.append(number)
    if not _held and len(_asked) == 1:
        leave_if_asked()
