"""Sees the agent at work: a process below the listener, looked for from outside.

In a sandbox an agent's own view of process numbers is another one, and what it writes beside its
worktree is not there afterwards; so the demo looks for itself. Never touches a process.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

import psutil

LOOK_EVERY_S = 0.01


class Witness:
    """While it is entered, looks below the process `listener` for one that runs `program`."""

    def __init__(self, listener: int, program: str) -> None:
        self.ancestors: list[int] = []  # of the agent, nearest first; empty when none was seen
        self._listener = listener
        self._program = program
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, name="witness")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self.ancestors and not self._stop.wait(LOOK_EVERY_S):
            self.ancestors = self._find()

    def _find(self) -> list[int]:
        try:
            for process in psutil.Process(self._listener).children(recursive=True):
                words = process.cmdline()
                # The wrapper of the box names the program too, and hosts ask it for its version.
                if self._program in words[:3] and "--version" not in words:
                    return [parent.pid for parent in process.parents()]
        except psutil.Error:
            pass  # it ended between two looks at it: look again
        return []
