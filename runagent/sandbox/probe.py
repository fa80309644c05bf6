"""Trying a sandbox on this machine before anything relies on it.

A canary is started in the very box that a run would get, in folders of the probe's own, and what
it could do decides what the sandbox is said to enforce. A sandbox that cannot keep a canary from
writing outside does not work. It must never leave a folder or a process behind.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from contracts.sandbox import Capability, SandboxMode
from runagent.environment import interpreter_environment
from runagent.process import ProcessOutcome, ProcessRunner, ProcessSpec, run
from runagent.sandbox.canary import CANARY, read_report

_TIMEOUT_S: Final = 30.0  # takes 50 ms; a machine under heavy load takes longer
_LISTEN_S: Final = 0.05  # between two looks at the heartbeat of what should be dead
_DESCRIPTORS: Final = "/proc/self/fd"  # proc(5); macOS has none

_TRIED: Final[Mapping[Capability, tuple[str, str]]] = {
    Capability.WRITES: ("writes", "a file outside of the worktree was written"),
    Capability.KEYS: ("keys", "a private file was read"),
    Capability.GIT: ("git", "a guarded file in a writable folder was changed"),
    Capability.AGENT_SETTINGS: ("git", "a guarded file in a writable folder was changed"),
    Capability.SOCKETS: ("sockets", "a socket was reached by its path"),
    Capability.PROCESSES: ("processes", "a process of the host was seen"),
}


@dataclass(frozen=True, slots=True)
class Ground:
    """The folders of one probe. `tree` may be written; `guarded` lies in it and may not; `secret`
    and `door` (a listening socket) are to be hidden."""

    scratch: str
    tree: str
    outside: str
    private: str
    secret: str
    door: str
    guarded: str


@dataclass(frozen=True, slots=True)
class Probed:
    """What was seen. `why` says for each capability why it does not hold, "" when it does; `fault`
    why the sandbox does not work at all."""

    mode: SandboxMode
    fault: str
    why: Mapping[Capability, str]

    @property
    def works(self) -> bool:
        """Say whether the sandbox can be used here."""
        return not self.fault

    @property
    def enforces(self) -> frozenset[Capability]:
        """Return what held."""
        return frozenset(capability for capability, why in self.why.items() if not why)


Enclose = Callable[[ProcessSpec, Ground], ProcessSpec]


def probe(mode: SandboxMode, enclose: Enclose, runner: ProcessRunner, folder: str) -> Probed:
    """Start a canary in the box that `enclose` makes of the ground, and return what it could do.

    `folder` exists, is the host's own, and is left as it was.
    """
    try:
        place = tempfile.mkdtemp(prefix="probe-", dir=folder)
    except OSError as error:
        return refuted(mode, f"no folder for the probe could be made: {error.strerror}")
    try:
        return _probe(mode, enclose, runner, os.path.realpath(place))
    except OSError as error:
        return refuted(mode, f"the probe could not be set up: {error.strerror}")
    finally:
        shutil.rmtree(place, ignore_errors=True)


def refuted(mode: SandboxMode, fault: str) -> Probed:
    """Return the finding that a sandbox does not work here, for the reason `fault`."""
    return Probed(mode, fault, dict.fromkeys(Capability, fault))


def _probe(mode: SandboxMode, enclose: Enclose, runner: ProcessRunner, place: str) -> Probed:
    ground = _make_ground(place)
    with _listening(ground.door):
        spec = ProcessSpec(
            argv=(
                *(sys.executable, "-I", "-S", "-E", "-c", CANARY, ground.tree, ground.outside),
                *(ground.secret, ground.door, ground.guarded, *_our_process()),
            ),
            cwd=ground.tree,
            env={"PATH": os.defpath, **interpreter_environment()},
            timeout_s=_TIMEOUT_S,
            grace_s=0.5,
        )
        outcome = run(runner, enclose(spec, ground))
    return _judge(mode, outcome, is_beating=_is_beating(os.path.join(ground.tree, "beat")))


def _our_process() -> tuple[str, str]:
    """Return our pid, and when we began in the system's own count, "" where it tells none."""
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            return str(os.getpid()), file.read().rpartition(")")[2].split()[19]
    except OSError:
        return str(os.getpid()), ""


def _make_ground(place: str) -> Ground:
    paths = {name: os.path.join(place, name) for name in ("scratch", "tree", "outside", "private")}
    for path in paths.values():
        os.mkdir(path, 0o700)
    secret = os.path.join(paths["private"], "key")
    guarded = os.path.join(paths["tree"], "guarded")
    for path, text in ((secret, "secret"), (guarded, "as it was")):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    # A socket's path may have 107 bytes, which a folder of state may exceed.
    return Ground(**paths, secret=secret, door=os.path.join(paths["outside"], "s"), guarded=guarded)


@contextlib.contextmanager
def _listening(path: str) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as door:
        parent = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            short = f"{_DESCRIPTORS}/{parent}"  # a socket's path may have 107 bytes
            folder = short if os.path.isdir(_DESCRIPTORS) else os.path.dirname(path)
            door.bind(os.path.join(folder, os.path.basename(path)))
        finally:
            os.close(parent)
        door.listen()
        yield


def _is_beating(beat: str) -> bool:
    def size() -> int:
        return os.path.getsize(beat) if os.path.exists(beat) else 0

    before = size()
    threading.Event().wait(_LISTEN_S)
    return size() > before


def _judge(mode: SandboxMode, outcome: ProcessOutcome, *, is_beating: bool) -> Probed:
    could = read_report(outcome.stdout)
    said = outcome.stderr.decode("utf-8", "replace").strip()[-300:]
    if could is None:
        return refuted(mode, f"the canary did not report: {said or outcome.why or outcome.state}")
    if not could.get("works"):
        return refuted(mode, "the canary could not write to its own folder")
    if could.get("writes"):
        return refuted(mode, "the canary wrote outside of its folder")
    why = {capability: told if could.get(act) else "" for capability, (act, told) in _TRIED.items()}
    if is_beating:
        why[Capability.PROCESSES] = "a daemon outlived the run"
    why[Capability.NETWORK] = "the network stays open: agents need it"
    return Probed(mode, "", why)
