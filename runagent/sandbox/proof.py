"""What a canary proved on this machine a moment ago, so that not every run has to start one.

A proof holds for the very circumstances it was made in (boot, kernel, what the system allows us,
the programs and the code that make the box, the folders of this host) and for some minutes. It lies
in the host's own state, which the box it tells of hides from every agent: a box that does not is
never remembered. It must never be believed in part, and never stand in for a look that was asked
for.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from contracts.sandbox import Capability, SandboxMode
from runagent.sandbox.probe import Probed

# Long enough for a busy host's next run; what no file tells (a security module's new rule) is
# found out after it.
LASTS_S: Final = 600.0
_NAME: Final = "sandbox-proof.json"
_READ_MAX_BYTES: Final = 64 * 1024
_SYSTEM: Final = (
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/user/max_pid_namespaces",
    "/proc/sys/user/max_mnt_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/self/attr/current",
    "/proc/self/mountinfo",
)
_SPACES: Final = ("mnt", "user", "pid", "net", "ipc", "uts", "cgroup")
_RIGHTS: Final = ("Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:", "Seccomp")
_FILE_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def circumstances(program: str, facts: Sequence[object], places: Sequence[str]) -> str:
    """Return a digest of all that a proof of `program` rests on; `facts` are the host's settings,
    `places` the folders that the box is made of."""
    code = Path(__file__).parent.parent
    sources = sorted(
        map(str, [*code.glob("sandbox/*.py"), *code.glob("_*.py"), code / "warden.py"])
    )
    told = {
        "kernel": list(os.uname()) if hasattr(os, "uname") else sys.platform,
        "system": {path: _text(path) for path in _SYSTEM},
        "spaces": [_link(f"/proc/self/ns/{name}") for name in _SPACES],
        "rights": [line for line in _text("/proc/self/status").splitlines() if _is_right(line)],
        "python": [sys.version, sys.executable, sys.prefix, sys.base_prefix],
        "files": {path: _identity(path) for path in (program, sys.executable, *sources, *places)},
        "facts": list(facts),
    }
    return hashlib.sha256(json.dumps(told, default=str).encode()).hexdigest()


def recall(folder: str, mode: SandboxMode, key: str) -> Probed | None:
    """Return what was proved in these circumstances lately, None when nothing was. `folder` is the
    host's state."""
    told = _read(folder)
    now = time.monotonic()  # since the boot, which is among the circumstances
    try:
        is_ours = told["key"] == key and told["mode"] == mode.value
        if not is_ours or not 0.0 <= now - float(told["at"]) < LASTS_S:
            return None
        why = {Capability(name): str(text) for name, text in told["why"].items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    probed = Probed(mode, "", why)
    return probed if set(why) == set(Capability) and _hides_itself(probed) else None


def keep(folder: str, probed: Probed, key: str) -> None:
    """Remember what was just proved. What cannot be written down is proved again."""
    path = os.path.join(folder, _NAME)
    if not probed.works or not _hides_itself(probed) or not _is_private(folder):
        with contextlib.suppress(OSError):
            os.unlink(path)
        return
    told = {
        "key": key,
        "mode": probed.mode.value,
        "at": time.monotonic(),
        "why": {capability.value: text for capability, text in probed.why.items()},
    }
    draft = f"{path}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
            file.write(json.dumps(told).encode())
        os.replace(draft, path)


def _hides_itself(probed: Probed) -> bool:
    """Say whether an agent in that box can neither read nor write the proof, nor reach a process
    that can."""
    needed = {Capability.WRITES, Capability.KEYS, Capability.PROCESSES}
    return probed.mode is SandboxMode.BUBBLEWRAP and needed <= probed.enforces


def _read(folder: str) -> Mapping[str, Any]:
    """Return what is written there, nothing when it is not ours alone."""
    if not _is_private(folder):
        return {}
    try:
        descriptor = os.open(os.path.join(folder, _NAME), _FILE_FLAGS)
    except OSError:
        return {}
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or not _is_ours(found) or found.st_nlink != 1:
            return {}
        try:
            told = json.loads(file.read(_READ_MAX_BYTES))
        except ValueError:
            return {}
    return told if isinstance(told, dict) else {}


def _is_private(folder: str) -> bool:
    """Say whether nobody else may put a file there."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    is_our_own = found.st_uid == os.geteuid() and not found.st_mode & 0o022
    return stat.S_ISDIR(found.st_mode) and is_our_own


def _is_ours(found: os.stat_result) -> bool:
    """Say whether nobody else may read or write the file."""
    return found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="backslashreplace") as file:
            return file.read()
    except OSError as error:
        return f"(errno {error.errno})"


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _is_right(line: str) -> bool:
    return line.startswith(_RIGHTS)


def _identity(path: str) -> tuple[object, ...]:
    """Return what tells a file, or a folder, from another one put in its place."""
    try:
        found = os.stat(path)
    except OSError:
        return (os.path.realpath(path),)
    kind = os.path.realpath(path), found.st_dev, found.st_ino, found.st_mode, found.st_uid
    if stat.S_ISDIR(found.st_mode):
        return kind
    return (*kind, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
