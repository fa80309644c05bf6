"""What is left when a warden itself was killed: found by session and by the run's marker.

The last resort. A process that left the session and emptied its environment is not found here;
the outcome says that the warden was lost, so that nobody takes this sweep for a proof.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

from runagent._cgroup import MARKER_NAME
from runagent._leader import PR_SET_CHILD_SUBREAPER, prctl
from runagent._tree import descendants, send, stat_of

CEILING_S = 5.0
QUIET_S = 0.02  # between two scans; two empty ones in a row are the end


def end_orphans(*, marker: str, session: int, spare: frozenset[int] = frozenset()) -> int:
    """Freeze and kill every process of the run until two scans find none; return how many.

    `marker` is the value of FLEET_DISPATCH_RUN in their environment, `session` the leader's pid
    (0: unknown), `spare` pids that are never touched. Gives up after 5 s.
    """
    if not os.path.isdir("/proc/self"):
        return _end_group(session)
    ended: set[int] = set()
    quiet = 0
    pause = threading.Event()  # never set: a wait that a signal handler may interrupt
    give_up = time.monotonic() + CEILING_S
    while quiet < 2 and time.monotonic() < give_up:
        found = _freeze(lambda: find_marked(marker, session) - spare - {os.getpid()})
        for pid in found:
            send(pid, signal.SIGKILL)
        ended |= found
        quiet = 0 if found else quiet + 1
        pause.wait(QUIET_S)
    return len(ended)


def become_guardian() -> bool:
    """Let orphans whose warden was killed become children of this process (Linux), so that
    `end_adopted` finds them; False where there is no such thing."""
    return prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_adopted(spare: frozenset[int]) -> int:
    """Freeze, kill and reap every descendant of this process but `spare` and what is below those,
    until two looks find none; return how many. Whatever they shed, they are found. For a guardian
    that starts programs in no other way meanwhile. Gives up after 5 s."""
    ended: set[int] = set()
    quiet = 0
    pause = threading.Event()
    give_up = time.monotonic() + CEILING_S
    while quiet < 2 and time.monotonic() < give_up:
        found = _freeze(lambda: _adopted(spare))
        for pid in found:
            send(pid, signal.SIGKILL)
        for pid in found:
            _reap(pid)
        ended |= found
        quiet = 0 if found else quiet + 1
        pause.wait(QUIET_S)
    return len(ended)


def _adopted(spare: frozenset[int]) -> set[int]:
    kept = set(spare)
    for pid in spare:
        kept.update(descendants(pid))
    return set(descendants(os.getpid())) - kept


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except OSError:
        return  # a grandchild: its turn comes when it is ours


def _end_group(session: int) -> int:
    if session <= 0:
        return 0
    try:
        os.killpg(session, signal.SIGKILL)
    except OSError:
        return 0
    return 1


def _freeze(look: Callable[[], set[int]]) -> set[int]:
    frozen: set[int] = set()
    for _ in range(8):
        new = look() - frozen
        if not new:
            break
        for pid in new:
            send(pid, signal.SIGSTOP)
        frozen |= new
    return frozen


def find_marked(marker: str, session: int) -> set[int]:
    """Return living processes that carry `marker` or belong to `session`, with descendants."""
    wanted = f"{MARKER_NAME}={marker}".encode()
    found: set[int] = set()
    for name in os.listdir("/proc"):
        stat = stat_of(int(name)) if name.isdigit() else None
        if stat is None or stat[0] in "ZX":
            continue
        if (session > 0 and stat[3] == session) or _carries(int(name), wanted):
            found.add(int(name))
    for pid in tuple(found):
        found.update(descendants(pid))
    return found


def _carries(pid: int, wanted: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return wanted in file.read().split(b"\0")
    except OSError:
        return False  # gone, or another user's: then it is not ours to end
