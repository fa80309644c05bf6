"""The end of what a lost run left: TERM, a grace, then frozen and killed until none is left.

For the time after a crash, when neither we nor a warden watch the tree any more. Found by marker,
by session, by number, in the run's cgroup, and as descendants of those. It must never touch a
process that nobody of these names, nor this process and its ancestors; that a number still means
the same process is the caller's to check.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from runagent._cgroup import MARKER_NAME, end_all, find_leaves, members, remove
from runagent._tree import descendants, send, stat_of

GRACE_S: Final = 5.0  # as between TERM and KILL of a run that has its warden
_CEILING_S: Final = 10.0  # a process in uninterruptible sleep cannot be killed: give up and say so
_LOOK_EVERY_S: Final = 0.1
_FREEZE_ROUNDS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """What may be left: markers of runs, and process and session numbers that are known to be
    theirs still."""

    markers: frozenset[str] = frozenset()
    pids: frozenset[int] = frozenset()
    sessions: frozenset[int] = frozenset()

    def find(self) -> set[int]:
        """Return the living processes that are meant, without this process and its ancestors."""
        if not os.path.isdir("/proc/self"):
            return {pid for pid in self.pids if _exists(pid)}
        wanted = {f"{MARKER_NAME}={marker}".encode() for marker in self.markers}
        found: set[int] = set()
        for name in os.listdir("/proc"):
            stat = stat_of(int(name)) if name.isdigit() else None
            if stat is not None and stat[0] not in "ZX" and self._names(int(name), stat[3], wanted):
                found.add(int(name))
        for leaf in find_leaves(self.markers):
            found.update(members(leaf))
        for pid in tuple(found):
            found.update(descendants(pid))
        return found - _own_line()

    def _names(self, pid: int, session: int, wanted: Collection[bytes]) -> bool:
        return pid in self.pids or session in self.sessions or bool(_environment(pid) & set(wanted))


@dataclass(frozen=True, slots=True)
class Ended:
    """How many processes were ended, and how many could not be."""

    ended: int
    left: int


def end_leftovers(leftovers: Leftovers, *, grace_s: float = GRACE_S) -> Ended:
    """End all of `leftovers`; return when none is found any more, or 10 s after the grace."""
    found = leftovers.find()
    seen = set(found)
    for pid in found:
        send(pid, signal.SIGTERM)
        _wake(pid)
    pause = threading.Event()  # never set: a wait that a signal handler may interrupt
    give_up = time.monotonic() + grace_s
    while found and time.monotonic() < give_up:
        pause.wait(_LOOK_EVERY_S)
        found = leftovers.find()
        seen |= found
    give_up = time.monotonic() + _CEILING_S
    while found and time.monotonic() < give_up:
        seen |= _kill(leftovers)
        pause.wait(_LOOK_EVERY_S)
        found = leftovers.find()
    for leaf in find_leaves(leftovers.markers):
        remove(leaf)
    return Ended(len(seen - found), len(found))


def _kill(leftovers: Leftovers) -> set[int]:
    """Freeze all that is found, so that nothing forks meanwhile, and kill it."""
    frozen: set[int] = set()
    for _ in range(_FREEZE_ROUNDS):
        new = leftovers.find() - frozen
        if not new:
            break
        for pid in new:
            send(pid, getattr(signal, "SIGSTOP", signal.SIGTERM))
        frozen |= new
    for leaf in find_leaves(leftovers.markers):
        end_all(leaf)
    for pid in frozen:
        send(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    return frozen


def _wake(pid: int) -> None:
    """Let a process that was stopped see the TERM."""
    number = getattr(signal, "SIGCONT", None)
    if number is not None:
        send(pid, number)


def _own_line() -> set[int]:
    """Return this process and its ancestors: a listener may run below a run."""
    line: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in line:
        line.add(pid)
        stat = stat_of(pid)
        pid = 0 if stat is None else stat[1]
    return line


def _environment(pid: int) -> set[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return set(file.read().split(b"\0"))
    except OSError:
        return set()  # gone, or another user's: then it is not ours to end


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
