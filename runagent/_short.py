"""A process without a warden: a program of the host's own that starts none of anybody else's.

Git over the host's own git directory is started dozens of times in a run, for milliseconds, and a
warden costs ten times what it does. Here the kernel ends it with the thread that started it (the
death signal that `setpriv` sets before the program runs), its group is ended with it, and its
deadline binds as any other's. Nothing of an agent's may be started here: what sheds its group is
not found. Linux only; where the kernel or `setpriv` cannot do this, a warden is used as ever.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from typing import Final

from contracts.errors import Unavailable
from runagent._cgroup import MARKER_NAME
from runagent._family import Family
from runagent._pipes import Tail
from runagent._walls import NO_WALLS
from runagent._wires import Wires
from runagent.process import EndState, ProcessOutcome, ProcessSpec

# By absolute path: a PATH may begin with a folder that others write to.
_SETPRIV: Final = ("/usr/bin/setpriv", "/bin/setpriv")
_DIE_WITH_US: Final = ("--pdeathsig", "KILL", "--")
_TRIED_S: Final = 10.0  # the trial takes 1 ms
_LOOK_S: Final = 0.25  # how soon an order of `abort` from another thread is seen
_LINGER_S: Final = 1.0  # for the last bytes then
_NOT_RUN: Final = frozenset({126, 127})  # of setpriv, with its own name before the words


def find_setpriv() -> tuple[str, ...]:
    """Return the words before a command that let it die with us, () where that cannot be had. Tries
    them: the option is younger than the program (util-linux 2.33), and busybox has none."""
    if sys.platform != "linux":
        return ()
    try:
        os.close(os.pidfd_open(os.getpid()))  # Linux 5.3
    except OSError:
        return ()
    for program in _SETPRIV:
        if not os.access(program, os.X_OK):
            continue
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            command = (program, *_DIE_WITH_US, program, "--version")
            null = subprocess.DEVNULL
            tried = subprocess.run(
                command, stdin=null, stdout=null, stderr=null, timeout=_TRIED_S, check=False
            )
            if tried.returncode == 0:
                return (program, *_DIE_WITH_US)
    return ()


class ShortStarts:
    """Starts the short processes of one runner."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._before: tuple[str, ...] | None = None  # not tried yet

    def start(self, spec: ProcessSpec, program: str) -> ShortProcess | None:
        """Start `spec` without a warden; None where it is not short, or the system cannot have it
        die with us, or it did not start: a warden then tells why."""
        if not spec.is_short or spec.keep_stdin_open or spec.sink is not None:
            return None
        if spec.walls != NO_WALLS:
            return None  # a warden builds them
        if self._before is None:
            self._before = find_setpriv()
        if not self._before:
            return None
        marker = spec.marker or secrets.token_hex(16)
        try:
            return ShortProcess(spec, program, self._before, marker, self._family)
        except OSError:
            return None


class ShortProcess:
    """One short process. It is read and fed in `wait`, by the thread that started it."""

    def __init__(
        self, spec: ProcessSpec, program: str, before: tuple[str, ...], marker: str, family: Family
    ) -> None:
        """Start `program` with the arguments of `spec`, behind the words `before`. Raises OSError
        when it cannot be started."""
        self._spec = spec
        self._family = family
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._outcome: ProcessOutcome | None = None
        self._tails = (Tail(spec.tail_bytes), Tail(spec.tail_bytes))
        self._child = subprocess.Popen(
            (*before, program, *spec.argv[1:]),
            stdin=subprocess.DEVNULL if spec.stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=spec.cwd,
            env={**spec.env, MARKER_NAME: marker},
            start_new_session=True,
        )
        self.pid = self._child.pid
        family.add(self.pid)

    def write(self, data: bytes) -> None:
        """See RunningProcess.write."""
        del data
        raise Unavailable("standard input of this process was not kept open")

    def close_stdin(self) -> None:
        """See RunningProcess.close_stdin."""

    def abort(self, reason: str) -> None:
        """See RunningProcess.abort."""
        with self._lock:
            if self._outcome is None and self._reason is None:
                self._reason = reason
                self._send(signal.SIGTERM)  # it cannot be reaped while the lock is held

    def wait(self) -> ProcessOutcome:
        """See RunningProcess.wait. A second call returns the same outcome."""
        if self._outcome is None:
            try:
                state, why = self._serve()
            except BaseException:
                self._end_now()  # a Ctrl-C: nothing is left, then it is raised
                raise
            with self._lock:
                self._outcome = self._conclude(state, why)
        return self._outcome

    def _serve(self) -> tuple[EndState, str]:
        """Read and feed until the process and its pipes have ended, or have been ended."""
        wires = Wires(self._child, self._spec.stdin or b"", self._tails)
        until = self._began + self._spec.timeout_s
        state, why = EndState.EXITED, ""
        try:
            while wires.are_open:
                now = time.monotonic()
                if wires.ended_at and now >= wires.ended_at + _LINGER_S:
                    break  # somebody outside of the group holds a pipe
                if state is EndState.EXITED and self._reason is not None:
                    state, until = EndState.ABORTED, now + self._spec.grace_s
                elif state is EndState.EXITED and now >= until:
                    state, why = EndState.TIMED_OUT, f"ended after its {self._spec.timeout_s:g} s"
                    self._send(signal.SIGTERM)
                    until = now + self._spec.grace_s
                elif now >= until:
                    self._send(signal.SIGKILL)
                    until = now + _LOOK_S
                wires.serve(min(_LOOK_S, max(0.0, until - now)))
        except BaseException:
            self._ask_to_end(wires)
            raise
        finally:
            wires.close()
        if self._reason is not None:
            return EndState.ABORTED, self._reason
        return state, why

    def _ask_to_end(self, wires: Wires) -> None:
        """Give it its grace to take its lock files away; its pipes are served meanwhile."""
        self._send(signal.SIGTERM)
        until = time.monotonic() + self._spec.grace_s
        while not wires.ended_at and (rest := until - time.monotonic()) > 0:
            wires.serve(rest)

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self.pid, number)

    def _end_now(self) -> None:
        with self._lock:
            self._outcome = self._conclude(EndState.ABORTED, "interrupted")

    def _conclude(self, state: EndState, why: str) -> ProcessOutcome:
        self._send(signal.SIGKILL)  # before it is reaped: what is left of its group
        code = self._child.wait()
        self._family.drop(self.pid)
        out, err = self._tails
        said = err.last()
        if state is EndState.EXITED and code in _NOT_RUN and said.startswith(b"setpriv:"):
            told = said.decode("utf-8", "replace").strip()
            return ProcessOutcome(state=EndState.NOT_STARTED, exit_code=None, why=told)
        return ProcessOutcome(
            state=state,
            exit_code=code if code >= 0 else 128 - code,
            why=why,
            stdout=out.last(),
            stderr=said,
            stdout_total=out.total,
            stderr_total=err.total,
            seconds=time.monotonic() - self._began,
        )
