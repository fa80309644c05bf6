"""The POSIX process runner: every process behind a warden of its own.

Owns the start of the warden, the control socket to it, and the outcome. The warden ends the tree;
this side keeps a second deadline for a warden that was stopped or killed, and then sweeps by
session and marker. Nothing runs in the child before exec (no preexec_fn): any threads are safe.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from contracts.errors import Unavailable
from runagent import warden
from runagent._cgroup import MARKER_NAME
from runagent._control import START_S, Control, Ends, explain_end, shell_code
from runagent._family import Family
from runagent._pipes import Drain, Feed, Stop, Tail
from runagent._program import NoProgram, explain, find_program
from runagent._short import ShortStarts
from runagent._unstarted import UnstartedProcess
from runagent.environment import interpreter_environment
from runagent.process import EndState, ProcessOutcome, ProcessSpec, RunningProcess

SLACK_S = 2.0  # how much later than deadline + grace the warden may report before it counts as lost
LINGER_S = 1.0  # for the last bytes, when a process outside the tree holds a pipe open
SLICE_S = 0.5  # how soon a new limit, set by abort in another thread, is seen

_LOST = (
    "the watching process was lost (killed or stopped from outside); what carried the session or "
    "the marker of the run was ended"
)
_MAYBE_LEFT = ", a process that shed both may be left"


class PosixRunner:
    """Starts processes behind wardens; a guardian also finds what a killed one was watching."""

    def __init__(self, *, is_guardian: bool = False) -> None:
        self._family = Family(is_guardian=is_guardian)
        self._short = ShortStarts(self._family)

    def start(self, spec: ProcessSpec) -> RunningProcess:
        """See ProcessRunner.start. Returns when the program runs or could not be started."""
        try:
            program = find_program(spec)
            return self._short.start(spec, program) or _launch(spec, program, self._family)
        except NoProgram as error:
            return UnstartedProcess(str(error))
        except OSError as error:
            return UnstartedProcess(
                f"no process could be made: {error.strerror} "
                "(this host is out of processes, memory or descriptors)"
            )


def _launch(spec: ProcessSpec, program: str, family: Family) -> RunningProcess:
    began = time.monotonic()
    marker = spec.marker or secrets.token_hex(16)
    ends = Ends(spec.stdin_mode)
    with ends.undo:
        # A session of its own: a Ctrl-C at the terminal is ours to handle, not the warden's.
        child = subprocess.Popen(
            (
                sys.executable,
                *("-I", "-S", "-E", "-c", warden.COMMAND, str(Path(__file__).parent.parent)),
                *(str(ends.theirs.fileno()), str(os.getpid())),
            ),
            stdin=ends.stdin,
            stdout=ends.out_writer,
            stderr=ends.err_writer,
            cwd="/",
            env={**interpreter_environment(), MARKER_NAME: marker},
            pass_fds=(ends.theirs.fileno(),),
            start_new_session=True,
        )
        ends.close_theirs()
    running = PosixProcess(spec, began, marker, child, ends, family)
    try:
        running.open(program)
    except BaseException:
        running.discard()
        raise
    return running


class PosixProcess:
    """One agent behind its warden."""

    def __init__(
        self,
        spec: ProcessSpec,
        began: float,
        marker: str,
        child: subprocess.Popen[bytes],
        ends: Ends,
        family: Family,
    ) -> None:
        self.pid = 0
        self._family = family
        family.add(child.pid)
        self._spec = spec
        self._began = began
        self._marker = marker
        self._child = child
        self._control = Control(ends.ours)
        self._stop = Stop()
        self._out, self._err = Tail(spec.tail_bytes), Tail(spec.tail_bytes)
        self._feed = None if ends.feed is None else Feed(ends.feed, self._stop)
        self._threads: list[threading.Thread] = [
            Drain("stdout", ends.out, self._out, spec.sink, self._stop),
            Drain("stderr", ends.err, self._err, spec.sink, self._stop),
        ]
        for thread in self._threads:
            thread.start()
        self._limit = began + spec.timeout_s + spec.grace_s + warden.CEILING_S + SLACK_S
        self._lock = threading.Lock()
        self._waiting = threading.Lock()
        self._reason: str | None = None
        self._report: dict[str, Any] | None = None  # kept: a Ctrl-C may interrupt what follows
        self._outcome: ProcessOutcome | None = None

    def open(self, program: str) -> None:
        """Send the order and await the confirmed start. Raises NoProgram with the reason."""
        remaining_s = self._began + self._spec.timeout_s - time.monotonic()
        try:
            self._control.send_order(self._spec, program, self._marker, remaining_s)
            report = self._control.next_report(START_S)
        except OSError:
            report = None
        if not report:
            self._end_warden()
            self._threads[1].join(LINGER_S)
            said = self._err.last()[-400:].decode("utf-8", "replace").strip()
            raise NoProgram(f"the watching process did not start (try again; it said: {said})")
        if report["event"] == "not_started":
            raise NoProgram(explain(report["stage"], report["errno"], self._spec, program))
        self.pid = int(report["pid"])
        if self._feed is not None:
            first = self._spec.stdin or b""
            self._threads.append(self._feed.begin(first, keep_open=self._spec.keep_stdin_open))

    def discard(self) -> None:
        """Undo a start that failed: nothing is left, nothing is reported."""
        self._control.close()
        self._end_warden()
        self._end_left()
        self._close_pipes()

    def write(self, data: bytes) -> None:
        """See RunningProcess.write."""
        if self._feed is None or not self._spec.keep_stdin_open:
            raise Unavailable("standard input of this process was not kept open")
        self._feed.write(data)

    def close_stdin(self) -> None:
        """See RunningProcess.close_stdin."""
        if self._feed is not None:
            self._feed.close()

    def abort(self, reason: str) -> None:
        """See RunningProcess.abort."""
        with self._lock:
            if self._outcome is not None or self._reason is not None:
                return
            self._reason = reason
            latest = time.monotonic() + self._spec.grace_s + warden.CEILING_S + SLACK_S
            self._limit = min(self._limit, latest)
            self._control.send_stop()

    def wait(self) -> ProcessOutcome:
        """See RunningProcess.wait."""
        with self._waiting:
            if self._outcome is None:
                outcome = self._conclude()
                with self._lock:
                    self._outcome = outcome
                self._control.close()
            return self._outcome

    def _conclude(self) -> ProcessOutcome:
        report = self._await_report()
        if report is None:
            self._end_warden()
            code, survivors = None, self._end_left()
            state, why = self._explain_loss()
        else:
            state, why = explain_end(report, self._spec.timeout_s, self._reason)
            code, survivors = shell_code(report), int(report["survivors"])
        self._close_pipes()
        self._end_warden()
        return ProcessOutcome(
            state=state,
            exit_code=code,
            why=why,
            stdout=self._out.last(),
            stderr=self._err.last(),
            stdout_total=self._out.total,
            stderr_total=self._err.total,
            seconds=time.monotonic() - self._began,
            survivors=survivors,
        )

    def _await_report(self) -> dict[str, Any] | None:
        while self._report is None and (rest := self._limit - time.monotonic()) > 0:
            report = self._control.next_report(min(rest, SLICE_S))
            if report is None:
                return None
            self._report = report or None
        return self._report

    def _explain_loss(self) -> tuple[EndState, str]:
        lost = _LOST + ("" if self._family.finds_all else _MAYBE_LEFT)
        if self._reason is not None:
            return EndState.ABORTED, f"{self._reason}; {lost}"
        if time.monotonic() >= self._began + self._spec.timeout_s:
            return EndState.TIMED_OUT, f"ended after its {self._spec.timeout_s:g} s; {lost}"
        return EndState.ABORTED, lost

    def _end_warden(self) -> None:
        try:
            self._child.wait(timeout=0 if self._limit < time.monotonic() else SLACK_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._family.drop(self._child.pid)

    def _end_left(self) -> int:
        return self._family.end_left(self._child.pid, marker=self._marker, session=self.pid)

    def _close_pipes(self) -> None:
        until = time.monotonic() + LINGER_S
        for thread in self._threads[:2]:
            thread.join(max(0.0, until - time.monotonic()))
        self._stop.order(LINGER_S)
        for thread in self._threads:
            thread.join(LINGER_S)
        if self._feed is not None:
            self._feed.release()
        if not any(thread.is_alive() for thread in self._threads):
            self._stop.close()  # a sink that never returns keeps its thread, and so the descriptor
