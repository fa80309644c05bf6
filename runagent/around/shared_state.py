"""The parts of a repository's git directories that make git run programs or look elsewhere.

An agent can write to them, and the owner's next plain git command obeys. They are read before and
after, as files: git is asked to list one setting file from a private copy and nothing else. Owners
push, commit and name themselves during a job, so settings that can do no harm may change.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from contracts.errors import FleetError
from contracts.run_agent import Risk
from runagent.deadline import Deadline
from runagent.git.shadow_git import ShadowGit

_READ_MAX_BYTES: Final = 4 * 1024 * 1024
_FOLDER_MAX: Final = 1_000
_NAMED: Final = 10
_SHARED_FILES: Final = ("info/attributes", "info/exclude", "info/grafts", "objects/info/alternates")
_SHARED_FOLDERS: Final = ("hooks", "refs/replace")
_OWN_FILES: Final = ("commondir", "gitdir")
# What git, an owner or a well-behaved agent writes in passing. Everything else is worth a look.
_HARMLESS: Final = re.compile(
    r"branch\..+\.(?:remote|merge|rebase|description|pushremote)"
    r"|remote\..+\.(?:url|pushurl|fetch|tagopt|prune|mirror)|submodule\..+\.(?:url|active)"
    r"|user\.(?:name|email)|(?:gc|color|advice)\..+|push\.default|pull\.(?:rebase|ff)"
    r"|core\.repositoryformatversion|extensions\.worktreeconfig|lfs\.repositoryformatversion",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class SharedState:
    """What stood there at one moment: a fingerprint of each part, the settings of each file."""

    parts: Mapping[str, str]
    settings: Mapping[str, frozenset[bytes]]  # file -> records `key\nvalue`


def read_shared_state(
    shadow: ShadowGit, common_dir: str, admin_dir: str, deadline: Deadline
) -> SharedState:
    """Return the state of a repository's shared git directory and of one worktree's own one."""
    parts = {name: _fingerprint(os.path.join(common_dir, name)) for name in _SHARED_FILES}
    parts.update({name: _fingerprint(os.path.join(admin_dir, name)) for name in _OWN_FILES})
    for folder in _SHARED_FOLDERS:
        parts.update(_fingerprints_below(common_dir, folder))
    files = {
        "config": os.path.join(common_dir, "config"),
        "config.worktree": os.path.join(common_dir, "config.worktree"),
        "the worktree's config.worktree": os.path.join(admin_dir, "config.worktree"),
    }
    settings = {name: read_settings(shadow, path, deadline) for name, path in files.items()}
    return SharedState(parts, settings)


def tell_tampering(before: SharedState, after: SharedState) -> tuple[Risk, ...]:
    """Return the risk `tampered` when something changed that no owner changes in passing."""
    changed = [
        name
        for name in sorted({*before.parts, *after.parts})
        if before.parts.get(name, "") != after.parts.get(name, "")
    ]
    for name, records in after.settings.items():
        keys = {record.partition(b"\n")[0] for record in records ^ before.settings[name]}
        shown = [key.decode("utf-8", "backslashreplace") for key in keys]
        changed += sorted(f"{name} ({key})" for key in shown if not _HARMLESS.fullmatch(key))
    if not changed:
        return ()
    named = ", ".join(changed[:_NAMED])
    more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
    message = (
        f"the repository's git settings changed during the job: {named}{more}; look at them before "
        "you run git there, it may start what they name"
    )
    return (Risk(code="tampered", message=message),)


def _read(path: str) -> bytes | None:
    """Return the bytes of a plain file; None when it is anything else, b"" when it is not there."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        return b""
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _READ_MAX_BYTES:
            return None
        return file.read(_READ_MAX_BYTES)


def _fingerprint(path: str) -> str:
    data = _read(path)
    if data is None:
        try:
            found = os.lstat(path)
        except OSError:
            return "unreadable"
        return f"{found.st_mode:o} {found.st_size} {found.st_mtime_ns}"
    return hashlib.sha256(data).hexdigest() if data else ""


def _fingerprints_below(common_dir: str, folder: str) -> dict[str, str]:
    path = os.path.join(common_dir, folder)
    if os.path.islink(path):
        return {folder: f"link {os.readlink(path)}"}
    try:
        names = sorted(os.listdir(path))[:_FOLDER_MAX]
    except OSError:
        return {}
    return {f"{folder}/{name}": _fingerprint(os.path.join(path, name)) for name in names}


def read_settings(shadow: ShadowGit, path: str, deadline: Deadline) -> frozenset[bytes]:
    """Return the settings in one file. What git cannot read stands as one record of its own."""
    data = _read(path)
    if data == b"":
        return frozenset()
    if data is None:
        return frozenset({b"(no plain file)"})
    known = shadow.settings_read.get(data)
    if known is not None:
        return known
    copy = os.path.join(shadow.directory, "looked-at")
    try:
        with open(copy, "wb") as file:
            file.write(data)
        listing, _ = shadow.run(
            ("config", "--file", copy, "--no-includes", "--null", "--list"), deadline
        )
    except (OSError, FleetError):
        return frozenset({b"(unreadable) " + hashlib.sha256(data).hexdigest().encode()})
    shadow.settings_read[data] = found = frozenset(filter(None, listing.split(b"\0")))
    return found
