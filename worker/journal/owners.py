"""Who holds something: one process of one machine, told apart from a later one with its number.

A process id comes back after a reboot or a wrap; together with the start time of the process it
does not. A machine's name may change under a running process, and every start of a container has
another one: what counts first is the boot and the process namespace. Never signals anything.
"""

from __future__ import annotations

import functools
import hashlib
import os
import socket
from pathlib import Path
from typing import Final, NamedTuple

import psutil

# psutil derives a start time from the boot time, which a clock correction moves a little.
_START_TOLERANCE_S: Final = 2.0
_DIGEST_CHARS: Final = 8


class Place(NamedTuple):
    """Where a process lives. Parts that this system does not tell are empty."""

    name: str  # the machine's name
    machine: str  # of its installation
    boot: str
    space: str  # of process numbers: a container has its own

    def __str__(self) -> str:
        return "/".join(self)

    def is_seen_from(self, here: Place) -> bool | None:
        """Say whether processes of this place can be looked at from `here`; None when they cannot
        and may live. False: this machine was started anew, so none of them lives."""
        if self.boot and (self.boot, self.space) == (here.boot, here.space):
            return True
        if (self.name, self.machine) != (here.name, here.machine):
            return None
        if not self.boot or not here.boot:
            return True if self.boot == here.boot else None
        return None if self.boot == here.boot else False


def this_process() -> str:
    """Return the owner text of the calling process: `place:pid:start`."""
    pid = os.getpid()
    return f"{this_place()}:{pid}:{psutil.Process(pid).create_time():.2f}"


@functools.cache
def this_place() -> Place:
    """Return where the calling process lives."""
    name = socket.gethostname().replace(":", "-").replace("/", "-")
    try:
        space = str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        space = ""
    return Place(
        name, _digest("/etc/machine-id"), _digest("/proc/sys/kernel/random/boot_id"), space
    )


def machine_of(owner: str) -> str:
    """Return the name of the machine in an owner text, for people."""
    return _parts(owner)[0].partition("/")[0]


def pid_of(owner: str) -> int:
    """Return the process id in an owner text."""
    return int(_parts(owner)[1])


def is_here(owner: str) -> bool:
    """Say whether the process behind an owner text can be looked at from here, alive or not."""
    return _place_of(owner).is_seen_from(this_place()) is True


def is_alive(owner: str) -> bool | None:
    """Say whether the process behind an owner text runs; None when that cannot be seen from here:
    it is another machine's, or another container's."""
    seen = _place_of(owner).is_seen_from(this_place())
    return is_running(pid_of(owner), float(_parts(owner)[2])) if seen else seen


def is_running(pid: int, started: float) -> bool | None:
    """Say whether the process `pid` that began at `started` (Unix seconds) still runs; None when
    this system does not say."""
    try:
        process = psutil.Process(pid)
        since = process.create_time()
        ended = process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return None
    return not ended and abs(since - started) <= _START_TOLERANCE_S


def is_number_its_own(pid: int, started: float) -> bool:
    """Say whether the number `pid` was given to no other process since the one that began at
    `started`; that one may run, or stand there as a zombie that nobody reaps."""
    try:
        since: float = psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False
    return abs(since - started) <= _START_TOLERANCE_S


def _parts(owner: str) -> list[str]:
    """Return place, pid and start; what stands behind a `#` tells holders of one process apart."""
    return owner.partition("#")[0].rsplit(":", 2)


def _place_of(owner: str) -> Place:
    """Return the place in an owner text. A text of the first version has a machine's name alone."""
    text = _parts(owner)[0]
    parts = text.split("/")
    if len(parts) == len(Place._fields):
        return Place(*parts)
    here = this_place()
    return here if text == here.name else Place(text, "", "", "")


def _digest(path: str) -> str:
    """Return what tells one content of `path` from another; "" when there is none."""
    try:
        text = Path(path).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS] if text else ""
