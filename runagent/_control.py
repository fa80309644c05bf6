"""The wires between us and one warden: the control socket, and the pipes of the agent.

Owns the encoding of orders and reports. It must never start or end anything.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import time
from typing import Any

from runagent._cgroup import MARKER_NAME
from runagent._pipes import widen
from runagent.process import EndState, ProcessSpec, StdinMode
from runagent.warden import STOP_BYTE

START_S = 30.0  # a warden starts in ~20 ms; a machine under heavy load or a hung disk takes longer


class Control:
    """Our end of the socket to a warden."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._heard = bytearray()

    def send_order(self, spec: ProcessSpec, program: str, marker: str, timeout_s: float) -> None:
        """Send what to start. Raises OSError when the warden is gone."""
        walls = spec.walls
        writable, uses_landlock = walls.writable or (), walls.writable is not None
        fields = [f"{timeout_s:.6f}", f"{max(0.0, spec.grace_s):.6f}"]
        fields += [str(int(walls.spares_leader)), str(int(uses_landlock)), str(walls.tells_at)]
        fields += [str(walls.sieve_at)]
        fields += [str(len(writable)), *writable, str(len(walls.readable)), *walls.readable]
        fields += [spec.cwd, program, str(len(spec.argv)), *spec.argv]
        fields += [f"{name}={value}" for name, value in spec.env.items()]
        fields += [f"{MARKER_NAME}={marker}"]
        body = b"\0".join(os.fsencode(field) for field in fields)
        self._end.settimeout(START_S)
        self._end.sendall(b"%d\n" % len(body) + body)
        self._end.settimeout(None)

    def send_stop(self) -> None:
        """Ask for the end of the tree. A warden that is gone needs no asking."""
        with contextlib.suppress(OSError):
            self._end.send(STOP_BYTE, socket.MSG_DONTWAIT)

    def next_report(self, within_s: float) -> dict[str, Any] | None:
        """Return the next report of the warden, an empty one when none came `within_s` seconds.

        None: the warden is gone.
        """
        until = time.monotonic() + within_s
        while b"\n" not in self._heard:
            poller = select.poll()
            poller.register(self._end, select.POLLIN)
            if not poller.poll(max(0.0, until - time.monotonic()) * 1000):
                return {}
            try:
                chunk = self._end.recv(4096)
            except OSError:
                return None
            if not chunk:
                return None
            self._heard += chunk
        line, _, rest = bytes(self._heard).partition(b"\n")
        self._heard[:] = rest
        report: dict[str, Any] = json.loads(line)
        return report

    def close(self) -> None:
        """Hang up: a warden that still lives ends everything."""
        self._end.close()


class Ends:
    """Both ends of everything between us and one agent, closed together if the start fails."""

    def __init__(self, mode: StdinMode) -> None:
        with contextlib.ExitStack() as undo:
            self.ours, self.theirs = socket.socketpair()
            undo.callback(self.ours.close)
            undo.callback(self.theirs.close)
            self.out, self.out_writer = _pipe(undo)
            self.err, self.err_writer = _pipe(undo)
            self.feed: int | None = None
            if mode is StdinMode.CLOSED:
                self.stdin = os.open(os.devnull, os.O_RDONLY)
                undo.callback(os.close, self.stdin)
            else:
                self.stdin, self.feed = _pipe(undo)
            self.undo = undo.pop_all()

    def close_theirs(self) -> None:
        """Close what the warden holds now, and let our ends live."""
        self.undo.pop_all()
        self.theirs.close()
        for fd in (self.out_writer, self.err_writer, self.stdin):
            os.close(fd)


def _pipe(undo: contextlib.ExitStack) -> tuple[int, int]:
    reader, writer = os.pipe()
    undo.callback(os.close, reader)
    undo.callback(os.close, writer)
    widen(writer)
    return reader, writer


def shell_code(report: dict[str, Any]) -> int | None:
    """Return the exit code as a shell says it: 128 + n for signal n."""
    if report["cause"] == "exit" and not report["ran"]:
        return None
    if report["signal"] is not None:
        return 128 + int(report["signal"])
    return None if report["exit"] is None else int(report["exit"])


def explain_end(
    report: dict[str, Any], timeout_s: float, reason: str | None
) -> tuple[EndState, str]:
    """Return how a run ended by its warden's report; `reason` is that of our own stop."""
    left = f"; {report['left']} processes could not be ended" if report["left"] else ""
    cause = report["cause"]
    if cause == "exit" and not report["ran"]:
        return EndState.NOT_STARTED, "its wrapper ended before the program ran" + left
    if cause == "exit":
        return EndState.EXITED, left.removeprefix("; ")
    if cause == "deadline":
        return EndState.TIMED_OUT, f"ended after its {timeout_s:g} s" + left
    if cause == "stop":
        return EndState.ABORTED, (reason or "aborted") + left
    return EndState.ABORTED, "the watching process was told by a signal to stop" + left
