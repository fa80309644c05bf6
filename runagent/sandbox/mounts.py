"""The file system of a box as a list of mounts, in the order in which bubblewrap makes them.

Owns the values, the ground that every box stands on, and their translation into arguments. A later
mount covers an earlier one. It must never follow a link: every path that comes in is a real path.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

# What name resolution and a system's own programs need of /run; the rest of it is sockets.
_RUN_NEEDS: Final = (
    *("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager", "/run/nscd"),
    *("/run/current-system", "/run/wrappers", "/run/opengl-driver", "/run/booted-system"),
)
_RUNTIME: Final = ("/run", "/var/run")
# Knobs of the kernel. bubblewrap covers those that may be written by what access(2) says of the
# folder, which is wrong for root: it may write files of /proc/sys without any capability.
_KNOBS: Final = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")
_TEMPORARY: Final = ("/tmp", "/var/tmp")  # noqa: S108 - these are covered by a private folder


class Kind(Enum):
    """What a mount shows, by bubblewrap's option."""

    READ_ONLY = "--ro-bind"
    READ_ONLY_IF_THERE = "--ro-bind-try"
    WRITABLE = "--bind"
    EMPTY = "--tmpfs"  # an empty folder, sealed once everything in it is mounted


@dataclass(frozen=True, slots=True)
class Mount:
    """One mount: `source` of the host, shown at `target` in the box."""

    kind: Kind
    target: str
    source: str = ""


def read_only(path: str, at: str = "") -> Mount:
    """Show `path` of the host, at the same place unless `at` says another, for reading."""
    return Mount(Kind.READ_ONLY, at or path, path)


def read_only_if_there(path: str) -> Mount:
    """Show `path` of the host for reading, and nothing if it goes before the box is built."""
    return Mount(Kind.READ_ONLY_IF_THERE, path, path)


def writable(path: str, at: str = "") -> Mount:
    """Show `path` of the host for reading and writing."""
    return Mount(Kind.WRITABLE, at or path, path)


def hide(path: str) -> list[Mount]:
    """Hide `path` of the host, whatever it is. What is not there needs no hiding."""
    if not os.path.lexists(path):
        return []
    real = os.path.realpath(path)
    if os.path.isdir(real):
        return [Mount(Kind.EMPTY, real)]
    return [Mount(Kind.READ_ONLY, real, os.devnull)] if os.path.exists(real) else []


def hidden_roots(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the real folders that every box covers: runtime sockets, temporary files of all."""
    named = (*_TEMPORARY, environment.get("TMPDIR", ""), *_RUNTIME)
    real = (os.path.realpath(path) for path in named if os.path.isabs(path) and os.path.isdir(path))
    return tuple(dict.fromkeys(path for path in real if path != "/"))


def ground(scratch: str, environment: Mapping[str, str]) -> list[Mount]:
    """Return the mounts of every box: all for reading, no runtime sockets, temporary places in
    `scratch`, which exists."""
    runtime = {os.path.realpath(path) for path in _RUNTIME if os.path.isdir(path)}
    return [
        *(
            Mount(Kind.EMPTY, path) if path in runtime else writable(scratch, path)
            for path in hidden_roots(environment)
        ),
        *(read_only(path) for path in _RUN_NEEDS if os.path.exists(path)),
    ]


def is_inside(path: str, roots: Iterable[str]) -> bool:
    """Say whether `path` is one of `roots` or lies below one."""
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def arguments(mounts: Iterable[Mount]) -> list[str]:
    """Return bubblewrap's arguments for `mounts` on a read-only view of this machine. What was to
    be hidden and is gone by now (sockets come and go) is left out: no place can be made for it."""
    words = [Kind.READ_ONLY.value, "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for path in filter(os.path.exists, _KNOBS):
        words += [Kind.READ_ONLY.value, path, path]
    emptied: list[str] = []
    for mount in mounts:
        if _hides(mount) and not os.path.lexists(mount.target):
            continue
        if mount.kind is Kind.EMPTY:
            words += ["--perms", "0700", mount.kind.value, mount.target]
            emptied.append(mount.target)
        else:
            words += [mount.kind.value, mount.source, mount.target]
    for target in emptied:
        words += ["--remount-ro", target]
    return words


def _hides(mount: Mount) -> bool:
    return mount.kind is Kind.EMPTY or mount.source == os.devnull
