"""Files outside every repository that decide what runs on this machine later: a fingerprint each.

Shell start files, keys, git's own settings, autostart places, agents' settings, our own files.
Content counts, not times: a tool that writes the same bytes again changes nothing. All is bounded,
and of what is read nothing is kept but a digest.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_HASHED_MAX_BYTES: Final = 1024 * 1024  # start files and settings have kilobytes
_ENTRIES_MAX: Final = 2_000
_DEPTH_MAX: Final = 3
# What clients write in passing: the host keys that ssh meets.
_PASSING: Final = ("known_hosts", "known_hosts.old")


@dataclass(frozen=True, slots=True)
class WatchList:
    """What a host looks at around its jobs: absolute paths, and whether a change in the main
    checkout is only noted (an owner who edits there while jobs run)."""

    paths: tuple[str, ...] = ()
    checkout_is_noted: bool = False


def read_watched(paths: Sequence[str]) -> dict[str, str]:
    """Return path -> fingerprint of the files at and below `paths`; what is not there is left out.

    Relative paths are passed over. At most 2 000 entries, three folders deep.
    """
    found: dict[str, str] = {}
    for path in paths:
        if os.path.isabs(path):
            for place in _files_at(path, 0):
                if len(found) >= _ENTRIES_MAX:
                    return found
                found[place] = _fingerprint(place)
    return found


def tell_changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the paths that came, went or changed, sorted."""
    return sorted({path for path, _ in set(before.items()) ^ set(now.items())})


def _files_at(path: str, depth: int) -> Iterator[str]:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return
    if not stat.S_ISDIR(mode):
        yield path
        return
    if depth >= _DEPTH_MAX:
        return
    try:
        names = sorted(os.listdir(path))[:_ENTRIES_MAX]
    except OSError:
        return
    for name in names:
        if name not in _PASSING:
            yield from _files_at(os.path.join(path, name), depth + 1)


def _fingerprint(path: str) -> str:
    """Return kind, mode, target and content. A link counts with what it leads to: start files are
    often links into a folder of their own."""
    try:
        own = os.lstat(path)
        target = os.readlink(path) if stat.S_ISLNK(own.st_mode) else ""
        state = os.stat(path)
    except OSError as error:
        return f"unreadable {error.errno}"
    told = f"{own.st_mode:o} {target} {state.st_mode:o}"
    if not stat.S_ISREG(state.st_mode):
        return told
    if state.st_size > _HASHED_MAX_BYTES:
        return f"{told} {state.st_size} {state.st_mtime_ns}"
    return f"{told} {_digest(path)}"


def _digest(path: str) -> str:
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            return hashlib.sha256(file.read(_HASHED_MAX_BYTES)).hexdigest()
    except OSError as error:
        return f"unreadable {error.errno}"
