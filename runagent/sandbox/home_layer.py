"""The home folder as the box shows it: everything there, for reading, in a private writable layer.

What a program makes anew in the home lands in the layer and is gone with the box; tool caches and
the agent's own state folder are the real ones. Guarded settings of the agent that are not there are
made, empty, so that nobody else can make them. It must never copy a login.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from runagent.agents.state import AgentState, empty_form
from runagent.sandbox.mounts import Mount, is_inside, read_only, read_only_if_there, writable

# Folders in which tools make folders of their own: the layer goes one level deeper there.
_LAYERED: Final = frozenset(
    {
        *(".config", ".local", ".local/share", ".local/state", ".cache", "go", "go/pkg"),
        *(".cargo", ".nuget", ".dotnet", ".m2", ".gradle"),
    }
)
# Programs of other people's hooks and shells, kept in a cache: for reading, whatever is listed.
# Made where they are not there; gitstatus is started by a prompt of zsh.
_PROGRAMS_IN_CACHES: Final = (".cache/pre-commit", ".cache/prek", ".cache/gitstatus")
# Doors to other machines and to keys that are kept in a home, not in a runtime folder.
_DOORS: Final = (".docker/run", ".docker/desktop", ".colima", ".rd", ".lima")
_FOLDERS_WITH_SOCKETS: Final = (".ssh", ".gnupg", ".ssh/agent")
_BOUND_SOCKETS: Final = "/proc/net/unix"  # proc(5): every socket of this network, with its path
# Where tools put their caches when told to: variable -> what of it is a cache.
_MOVED_CACHES: Final[Mapping[str, str]] = {
    "XDG_CACHE_HOME": "",
    "CARGO_HOME": "registry",
    "GOPATH": "pkg/mod",
    "NUGET_PACKAGES": "",
}


@dataclass(frozen=True, slots=True)
class GuardedLink:
    """A guarded name that is a link: it cannot be covered, so it is looked at afterwards."""

    path: str
    target: str


def real_home(environment: Mapping[str, str]) -> str:
    """Return the real path of the home that `environment` names, "" when there is none to layer."""
    home = os.path.realpath(environment.get("HOME", "/"))
    return home if home != "/" and os.path.isdir(home) else ""


def lay_home(home: str, layer: str) -> list[Mount]:
    """Return the mounts that show `home` through `layer` (made here). Raises OSError."""
    mounts = [writable(layer, home)]
    _lay(home, layer, "", mounts)
    return mounts


def cache_mounts(
    home: str, caches: Sequence[str], environment: Mapping[str, str], *, must_exist: bool
) -> list[Mount]:
    """Return writable mounts of the listed caches: relative ones lie below `home`. One that is not
    there is made, unless it `must_exist`; what cannot be made is left out."""
    wanted = [os.path.join(home, cache) for cache in caches if home or os.path.isabs(cache)]
    wanted += [
        os.path.join(environment[name], below)
        for name, below in _MOVED_CACHES.items()
        if os.path.isabs(environment.get(name, ""))
    ]
    mounts: list[Mount] = []
    for path in wanted:
        if not must_exist or path == os.path.join(home, ".cache"):
            with contextlib.suppress(OSError):
                os.makedirs(path, exist_ok=True)
        if os.path.isdir(path):
            mounts.append(writable(os.path.realpath(path)))
    programs = [os.path.join(home, name) for name in _PROGRAMS_IN_CACHES]
    if is_inside(os.path.join(home, ".cache"), [mount.target for mount in mounts]):
        for path in programs:  # one that is not there yet could be made in a job
            _make_empty(path, None)
    mounts += [read_only(os.path.realpath(path)) for path in programs if os.path.isdir(path)]
    return mounts


def state_folder(home: str, state: AgentState, environment: Mapping[str, str]) -> str:
    """Return the real path of an agent's state folder, made if it is not there; "" if it cannot."""
    moved = environment.get(state.variable, "") if state.variable else ""
    folder = moved if os.path.isabs(moved) else os.path.join(home, state.folder)
    if not home and not os.path.isabs(moved):
        return ""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError:
        return ""
    return os.path.realpath(folder)


def guard_settings(folder: str, state: AgentState) -> tuple[list[Mount], tuple[GuardedLink, ...]]:
    """Return the mounts that make an agent's state folder writable and its settings not, and the
    links that no mount can cover. No folder: nothing."""
    if not folder:
        return [], ()
    mounts, links = [writable(folder)], []
    for name in state.guarded:
        path = os.path.join(folder, name)
        _make_empty(path, empty_form(name))
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            continue
        if stat.S_ISLNK(mode):
            links.append(GuardedLink(path, os.readlink(path)))
        else:
            mounts.append(read_only(path))
    return mounts, tuple(links)


def copy_files(home: str, layer: str, state: AgentState) -> None:
    """Put private copies of the files that a CLI replaces by renaming into the layer."""
    for name in state.copied:
        source, copy = os.path.join(home, name), os.path.join(layer, name)
        if home and os.path.isfile(source) and not os.path.lexists(copy):
            shutil.copyfile(source, copy)
            os.chmod(copy, 0o600)


def doors_below(home: str) -> list[str]:
    """Return the sockets and folders of sockets in `home` that lead to more than this machine's
    files: agents of keys, masters of ssh connections, engines of containers, watchers. Wherever
    somebody listens below the home there is one."""
    doors = [os.path.join(home, name) for name in _DOORS]
    for folder in _FOLDERS_WITH_SOCKETS:
        doors += [
            entry.path
            for entry in _entries(os.path.join(home, folder))
            if stat.S_ISSOCK(_mode_of(entry))
        ]
    return list(dict.fromkeys((*doors, *_bound_below(home))))


def _bound_below(home: str) -> list[str]:
    try:
        with open(_BOUND_SOCKETS, encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.rstrip("\n").split(None, 7) for line in file]
    except OSError:
        return []  # not Linux
    named = [row[7] for row in rows if len(row) == 8 and row[7].startswith("/")]
    real = {os.path.realpath(path) for path in named}
    return sorted(path for path in real if is_inside(path, (home,)) and os.path.exists(path))


def mend_links(links: Iterable[GuardedLink]) -> list[str]:
    """Put back what stood in place of each guarded link; return the paths that were changed."""
    changed = []
    for link in links:
        with contextlib.suppress(OSError):
            if os.readlink(link.path) == link.target:
                continue
        changed.append(link.path)
        with contextlib.suppress(OSError):
            os.replace(link.path, f"{link.path}.changed-in-a-job")
        with contextlib.suppress(OSError):
            os.symlink(link.target, link.path)
    return changed


def _lay(home: str, layer: str, below: str, mounts: list[Mount]) -> None:
    os.makedirs(os.path.join(layer, below), mode=0o700, exist_ok=True)
    for entry in _entries(os.path.join(home, below)):
        name = os.path.join(below, entry.name)
        mode = _mode_of(entry)
        if stat.S_ISLNK(mode):
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                os.symlink(os.readlink(entry.path), os.path.join(layer, name))
        elif stat.S_ISDIR(mode) and name in _LAYERED:
            _lay(home, layer, name, mounts)
        elif (stat.S_ISDIR(mode) or stat.S_ISREG(mode)) and name != ".claude.json":
            # Owners and their programs remove files while jobs run.
            mounts.append(read_only_if_there(entry.path))


def _mode_of(entry: os.DirEntry[str]) -> int:
    """Return the mode of what stands there, 0 when it went since the folder was read."""
    try:
        return entry.stat(follow_symlinks=False).st_mode
    except OSError:
        return 0


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _make_empty(path: str, content: bytes | None) -> None:
    """Make an empty settings file or folder where there is nothing."""
    with contextlib.suppress(OSError):
        if content is None:
            os.mkdir(path, 0o700)
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            file.write(content)
