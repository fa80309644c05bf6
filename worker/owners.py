"""Who holds something: one process of one machine, told apart from a later one with its number.

A process id comes back after a reboot or a wrap; together with the start time of the process it
does not. Never signals anything: it only looks.
"""

from __future__ import annotations

import os
import socket
from typing import Final

import psutil

# psutil derives a start time from the boot time, which a clock correction moves a little.
_START_TOLERANCE_S: Final = 2.0


def this_process() -> str:
    """Return the owner text of the calling process: `machine:pid:start`."""
    pid = os.getpid()
    return f"{socket.gethostname()}:{pid}:{psutil.Process(pid).create_time():.2f}"


def is_alive(owner: str) -> bool | None:
    """Say whether the process behind an owner text runs; None when it is another machine's."""
    machine, _, rest = owner.rpartition(":")[0].rpartition(":")
    if machine != socket.gethostname():
        return None
    try:
        process = psutil.Process(int(rest))
        started = process.create_time()
        ended = process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return None
    return not ended and abs(started - float(owner.rpartition(":")[2])) <= _START_TOLERANCE_S
