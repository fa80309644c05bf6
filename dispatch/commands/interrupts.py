"""A person's Ctrl-C while a verb waits.

Python raises KeyboardInterrupt wherever the program happens to be. Inside a destructor or a
callback of the garbage collector it is printed and dropped, and the wait would go on.
Owns the memory of it; must never swallow one itself, and changes nothing outside its block.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """What a person asked for while a block ran."""

    def __init__(self) -> None:
        self._came = False

    def note(self, _number: int, _frame: FrameType | None) -> None:
        """Remember it and raise KeyboardInterrupt: the handler of a signal."""
        self._came = True
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt if one came, also when the first one was dropped on its way."""
        if self._came:
            raise KeyboardInterrupt


@contextmanager
def noted_interrupts() -> Iterator[Interrupts]:
    """Note each SIGINT inside the block; `check` it wherever the block looks around. A thread that
    is not the main one gets no signals, and a SIGINT that is ignored stays so."""
    interrupts, before = Interrupts(), signal.getsignal(signal.SIGINT)
    is_told = threading.current_thread() is threading.main_thread()
    if not is_told or before is not signal.default_int_handler:
        yield interrupts
        return
    signal.signal(signal.SIGINT, interrupts.note)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)
