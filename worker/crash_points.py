"""The crash hook of our own tests: named moments at which a process of ours dies or freezes.

Owns the names of the moments, the words of the variable that turns one on, and the signal. It must
never do anything when the variable is not set, which is always so outside of a test.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Final

from contracts.errors import InvalidRequest, Problem

CRASH_VARIABLE: Final = "FLEET_DISPATCH_CRASH_AT"
# Each moment, and the process that gets there. What stands in the journal at that moment is said
# by the name; `after_done` is a result on disk that was not sent.
POINTS: Final[dict[str, str]] = {
    "before_claim": "listener",  # verified, and in no journal
    "after_claim": "listener",
    "after_cancel_taken": "listener",  # a cancel is in the journal, and what runs was told nothing
    "after_started": "run",  # the agent itself is not started yet
    "after_agent_done": "run",
    "after_validated": "run",
    "after_run": "listener",  # the run has handed in its result, which is on no disk
    "after_done": "listener",
    "before_publish": "listener",
    "after_stored": "listener",  # the broker holds the result, the journal does not know it
    "after_published": "listener",
}
# A frozen process is what a test needs to end several at one and the same moment.
_ACTIONS: Final = {
    "kill": getattr(signal, "SIGKILL", signal.SIGTERM),  # Windows: TERM ends at once, too
    "stop": getattr(signal, "SIGSTOP", signal.SIGTERM),
}


@dataclass(frozen=True, slots=True)
class CrashPoints:
    """The moments of one process, of which at most one is turned on."""

    point: str = ""
    action: str = "kill"

    def reach(self, point: str) -> None:
        """Say that `point` is reached; send this process its signal if that one is turned on."""
        if point == self.point:
            os.kill(os.getpid(), _ACTIONS[self.action])


UNARMED: Final = CrashPoints()


def parse_crash_at(text: str) -> CrashPoints:
    """Return what `text` turns on: `[listener:|run:]POINT[=kill|=stop]`, nothing when it is empty.

    Raises InvalidRequest for a word that is no moment of that process.
    """
    named, _, action = text.partition("=")
    process, _, point = named.rpartition(":")
    known = point in POINTS and process in ("", POINTS[point]) and (action or "kill") in _ACTIONS
    if text and not known:
        remedy = f"leave it unset; it is a test's, and one of {', '.join(POINTS)}"
        raise InvalidRequest([Problem(CRASH_VARIABLE, "names no moment", remedy)])
    return CrashPoints(point, action or "kill")
