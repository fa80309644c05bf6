"""The process seam: the only door through which anything of a run is started.

Owns the values, protocols, `run` and the shipped fake. Whoever starts a process gets a deadline for
it and its pipes, flat memory, and no process left. It must never interpret output or exit codes.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Protocol

from contracts import limits
from contracts.errors import Unavailable
from runagent._walls import NO_WALLS, Walls

ByteSink = Callable[[str, bytes], None]


class StdinMode(Enum):
    """What the process finds on its standard input."""

    CLOSED = auto()  # the null device: reading ends at once
    BYTES = auto()  # the given bytes, then the end
    OPEN = auto()  # the given bytes if any, then whatever RunningProcess.write sends


class EndState(StrEnum):
    """How a process ended, by our own flag: measured, CLIs exit 0 with `success` after a TERM."""

    EXITED = "exited"
    TIMED_OUT = "timed_out"
    ABORTED = "aborted"
    NOT_STARTED = "not_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """What to start, where, with which environment, and until when."""

    argv: tuple[str, ...]  # argv[0] without a slash is looked up on the PATH of `env`
    cwd: str
    env: Mapping[str, str]  # the whole environment, nothing is added but the run's marker
    timeout_s: float  # on the monotonic clock; binds the process and the reading of its pipes
    stdin: bytes | None = None
    keep_stdin_open: bool = False
    grace_s: float = 5.0  # between TERM and KILL
    tail_bytes: int = limits.TAIL_BYTES  # last bytes of each stream that are kept
    marker: str = ""  # what tells this start from every other in an environment; "": a random one
    sink: ByteSink | None = None  # ("stdout" | "stderr", chunk), called on the reading threads
    is_short: bool = False  # ours, starts nobody else's program, ends soon: needs no warden
    walls: Walls = NO_WALLS  # how the leader is confined, or confines its program

    @property
    def stdin_mode(self) -> StdinMode:
        """Return which of the three kinds of standard input this is."""
        if self.keep_stdin_open:
            return StdinMode.OPEN
        return StdinMode.CLOSED if self.stdin is None else StdinMode.BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOutcome:
    """How it ended, what it printed last, and what had to be cleaned up."""

    state: EndState
    exit_code: int | None  # as a shell says it: 128 + n for signal n; None when there was none
    why: str  # for people; empty after a plain exit
    stdout: bytes = b""  # the tail, raw bytes
    stderr: bytes = b""
    stdout_total: int = 0  # bytes seen in all
    stderr_total: int = 0
    seconds: float = 0.0
    survivors: int = 0  # processes of the run alive after its leader ended, and ended by us


class RunningProcess(Protocol):
    """One started (or not started) process."""

    @property
    def pid(self) -> int:
        """Return the leader's process id, 0 when nothing was started."""
        ...

    def write(self, data: bytes) -> None:
        """Send `data` to an input that was kept open; blocks while unread. Raises Unavailable when
        nobody reads any more or it was not kept open."""
        ...

    def close_stdin(self) -> None:
        """End a standard input that was kept open. Twice is once."""
        ...

    def abort(self, reason: str) -> None:
        """End the tree: TERM, grace, KILL. Returns at once; the first reason is kept."""
        ...

    def wait(self) -> ProcessOutcome:
        """Return the outcome once the tree is gone and the pipes are read; at the latest a little
        after deadline + grace. Never raises for anything the process does."""
        ...


class ProcessRunner(Protocol):
    """Starts processes."""

    def start(self, spec: ProcessSpec) -> RunningProcess:
        """Start `spec`. What cannot be started is an outcome (NOT_STARTED), not an exception."""
        ...


def run(runner: ProcessRunner, spec: ProcessSpec) -> ProcessOutcome:
    """Start `spec` and await its end. An interruption (Ctrl-C) ends the tree, then is raised."""
    running = runner.start(spec)
    try:
        return running.wait()
    except BaseException:
        running.abort("interrupted")
        running.wait()
        raise


def system_runner(*, is_guardian: bool = False) -> ProcessRunner:
    """Return the runner of this system; a guardian's process starts programs in no other way."""
    if sys.platform == "win32":
        from runagent._windows import WindowsRunner

        return WindowsRunner()
    from runagent._posix import PosixRunner

    return PosixRunner(is_guardian=is_guardian)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What a scripted program does: print, run for a while, exit."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0
    runs_for_s: float = 0.0  # real seconds; math.inf runs until it is ended
    echo_stdin: bool = False  # print standard input, once it has ended, after `stdout`
    survivors: int = 0
    not_started: str = ""  # a reason: the program does not start


Scripted = Script | Callable[[ProcessSpec], Script]


class ScriptedRunner:
    """The shipped fake: programs by argv[0], each a Script or a callable that makes one (and may
    do the program's work, such as an edit below `spec.cwd`). Starts no process."""

    def __init__(self, programs: Mapping[str, Scripted]) -> None:
        self._programs = dict(programs)
        self.started: list[ProcessSpec] = []

    def start(self, spec: ProcessSpec) -> RunningProcess:
        """See ProcessRunner.start. An unknown program is not started, like a missing one."""
        name = spec.argv[0] if spec.argv else "(no program named)"
        known = self._programs.get(name, Script(not_started=f"{name}: not found on PATH (script)"))
        self.started.append(spec)
        script = known if isinstance(known, Script) else known(spec)
        return ScriptedProcess(spec, script)


class ScriptedProcess:
    """A process that is only a Script. It ends in wait()."""

    def __init__(self, spec: ProcessSpec, script: Script) -> None:
        self._spec = spec
        self._script = script
        self._began = time.monotonic()
        self._changed = threading.Condition()
        self._reason: str | None = None
        self._stdin = bytearray(spec.stdin or b"")
        self._stdin_open = spec.keep_stdin_open
        self._outcome: ProcessOutcome | None = None
        self.pid = 0 if script.not_started else 1

    def write(self, data: bytes) -> None:
        """See RunningProcess.write."""
        with self._changed:
            if not self._stdin_open or self._outcome is not None:
                raise Unavailable("nobody reads this process's standard input")
            self._stdin += data

    def close_stdin(self) -> None:
        """See RunningProcess.close_stdin."""
        with self._changed:
            self._stdin_open = False
            self._changed.notify_all()

    def abort(self, reason: str) -> None:
        """See RunningProcess.abort."""
        with self._changed:
            if self._reason is None:
                self._reason = reason
            self._changed.notify_all()

    def wait(self) -> ProcessOutcome:
        """See RunningProcess.wait."""
        with self._changed:
            if self._outcome is None:
                self._outcome = self._play()
            return self._outcome

    def _play(self) -> ProcessOutcome:
        script, spec = self._script, self._spec
        if script.not_started:
            state, why = EndState.NOT_STARTED, script.not_started
            return ProcessOutcome(state=state, exit_code=None, why=why)
        state, why = self._await_end()
        out = script.stdout + (bytes(self._stdin) if script.echo_stdin else b"")
        self._deliver("stdout", out)
        self._deliver("stderr", script.stderr)
        return ProcessOutcome(
            state=state,
            exit_code=script.exit_code if state is EndState.EXITED else 128 + 15,
            why=why,
            stdout=out[max(0, len(out) - spec.tail_bytes) :],
            stderr=script.stderr[max(0, len(script.stderr) - spec.tail_bytes) :],
            stdout_total=len(out),
            stderr_total=len(script.stderr),
            seconds=time.monotonic() - self._began,
            survivors=script.survivors,
        )

    def _await_end(self) -> tuple[EndState, str]:
        ends_at = self._began + self._script.runs_for_s
        deadline = self._began + self._spec.timeout_s
        while self._reason is None:
            now = time.monotonic()
            held = self._script.echo_stdin and self._stdin_open
            if now >= deadline:
                return EndState.TIMED_OUT, f"ended after its {self._spec.timeout_s:g} s"
            if now >= ends_at and not held:
                return EndState.EXITED, ""
            self._changed.wait((deadline if held else min(ends_at, deadline)) - now)
        return EndState.ABORTED, self._reason

    def _deliver(self, stream: str, data: bytes) -> None:
        if self._spec.sink is not None and data:
            with contextlib.suppress(Exception):  # a sink's trouble changes nothing here
                self._spec.sink(stream, data)
