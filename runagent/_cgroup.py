"""A cgroup of its own for each run, where this process may make one: the kernel's own list of what
belongs to a run, whatever that did to its session, its parents and its environment.

Version 2 alone, also beside version 1 (`/sys/fs/cgroup/unified`). No controller is switched on: the
leaf is a list and a way to end all that is on it at once. Standard library alone, few imports: the
warden loads it at every start. Where nothing may be made every call does nothing. It must never end
a cgroup that holds this process.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` is left out: every import here delays each start
if TYPE_CHECKING:
    import signal
else:
    try:
        import _signal as signal  # the C half: the same calls without enum, 9 ms less a start
    except ImportError:
        import signal

MARKER_NAME = "FLEET_DISPATCH_RUN"  # in the environment of all that is started for a run
PREFIX = "fleet-dispatch-"
_DEPTH_MAX = 32  # the kernel's own limit is the owner's; ours stops a tree that an agent made deep


def own_cgroup() -> str:
    """Return the folder of this process's version 2 cgroup, "" where none is to be seen."""
    try:
        mount, root = _mount()
        path = _own_path()
    except OSError:
        return ""
    if not mount or not path.startswith("/") or ".." in path.split("/"):
        return ""
    if root == "/":
        return os.path.normpath(mount + path)
    if path == root or path.startswith(root + "/"):
        return os.path.normpath(mount + path[len(root) :])
    return ""


def make_leaf(marker: str, warden: int) -> str:
    """Make the cgroup of the run that `warden` watches; return its folder, "" when that may not
    be."""
    leaf = leaf_of(marker, warden)
    try:
        if leaf:
            os.mkdir(leaf, 0o755)
    except OSError:
        return ""
    return leaf


def leaf_of(marker: str, warden: int) -> str:
    """Return where `make_leaf` of a process in the same cgroup as ours makes it."""
    own = own_cgroup()
    return f"{own}/{PREFIX}{marker}-{warden}" if own and marker and "/" not in marker else ""


def join(leaf: str) -> None:
    """Move this process, which must have one thread, into `leaf`; what may not be is left."""
    if leaf:
        _write(f"{leaf}/cgroup.procs", b"0")


def end_all(leaf: str) -> None:
    """Kill whatever is in `leaf` and below it. Returns before they are gone."""
    if not leaf or _holds_us(leaf) or _write(f"{leaf}/cgroup.kill", b"1"):
        return
    _write(f"{leaf}/cgroup.freeze", b"1")  # before Linux 5.14: nothing forks while it is killed
    for pid in members(leaf):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            continue


def members(leaf: str) -> set[int]:
    """Return the processes in `leaf` and below it. The kernel tells those of another pid namespace
    as 0, which to kill(2) means our own group."""
    found: set[int] = set()
    for place in _below(leaf):
        try:
            with open(f"{place}/cgroup.procs", "rb") as file:
                found.update(int(pid) for pid in file.read().split())
        except (OSError, ValueError):
            continue
    return found - {0}


def remove(leaf: str) -> None:
    """Remove `leaf` and what was made below it; what still holds a process stays."""
    for place in reversed(_below(leaf)):
        try:
            os.rmdir(place)
        except OSError:
            continue


def find_leaves(markers: frozenset[str]) -> list[str]:
    """Return the cgroups of the runs with these markers, wherever they were made on this machine,
    without one that holds this process."""
    try:
        mount = _mount()[0]
    except OSError:
        return []
    return [
        place
        for place in _below(mount)
        if _marker_of(os.path.basename(place)) in markers and not _holds_us(place)
    ]


def _marker_of(name: str) -> str:
    return name[len(PREFIX) :].rpartition("-")[0] if name.startswith(PREFIX) else ""


def _holds_us(leaf: str) -> bool:
    own = own_cgroup()
    return own == leaf or own.startswith(leaf + "/")


def _below(place: str) -> list[str]:
    """Return `place` and the cgroups below it, the outer ones first."""
    if not place:
        return []
    found = [(place, 0)]
    for path, depth in found:  # grows while it is walked
        if depth >= _DEPTH_MAX:
            continue
        try:
            with os.scandir(path) as entries:
                found += [(e.path, depth + 1) for e in entries if e.is_dir(follow_symlinks=False)]
        except OSError:
            continue
    return [path for path, _ in found]


def _own_path() -> str:
    with open("/proc/self/cgroup", "rb") as file:
        for line in file:
            if line.startswith(b"0::"):
                return os.fsdecode(line[3:].rstrip(b"\n"))
    return ""


def _mount() -> tuple[str, str]:
    """Return where version 2 is mounted, and which cgroup is seen there."""
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            before, _, after = line.partition(b" - ")
            if after.startswith(b"cgroup2 "):
                fields = before.split()
                if b"\\" not in fields[3] + fields[4]:  # escaped: not a name that we would guess at
                    return os.fsdecode(fields[4]), os.fsdecode(fields[3])
    return "", ""


def _write(path: str, data: bytes) -> bool:
    try:
        descriptor = os.open(path, os.O_WRONLY)
    except OSError:
        return False
    try:
        os.write(descriptor, data)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
