"""A process runner that writes down what it starts for a run, so that a later listener can end it.

The marker is on disk before the start, numbers and start times after it. What cannot be written
down is started all the same: the record is the last net below the wardens, and a full disk must not
cost a run its look at the agent's work. Decides nothing about a process.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import psutil

from contracts.errors import CouldNotCheck, Unavailable
from runagent.process import ProcessOutcome, ProcessRunner, ProcessSpec, RunningProcess
from worker.journal.processes import Processes, RecordedProcess

# Our own git runs dozens of times in a run, for milliseconds: one marker for all of it.
_SHORT: Final = "git"
_ROLE_MAX_CHARS: Final = 64


class RecordingRunner:
    """Starts the processes of one job."""

    def __init__(
        self, inner: ProcessRunner, processes: Processes, job_id: str, *, role: str = ""
    ) -> None:
        """`role` is the word for what is started; default: the name of its program."""
        self._inner = inner
        self._processes = processes
        self._job_id = job_id
        self._role = role
        self._short_marker = ""

    def start(self, spec: ProcessSpec) -> RunningProcess:
        """See ProcessRunner.start."""
        role = self._role or os.path.basename(spec.argv[0])[:_ROLE_MAX_CHARS]
        if role == _SHORT:
            return self._inner.start(replace(spec, marker=self._shared()))
        marker = secrets.token_hex(16)
        self._note(lambda: self._processes.expect(self._job_id, role, marker))
        running = self._inner.start(replace(spec, marker=marker))
        if running.pid > 0:
            rows = list(_line_of(self._job_id, running.pid, role, marker))
            self._note(lambda: self._processes.add(rows))
        return RecordedRun(running, lambda: self._note(lambda: self._processes.end(marker)))

    def _shared(self) -> str:
        if not self._short_marker:
            marker = secrets.token_hex(16)
            self._note(lambda: self._processes.expect(self._job_id, _SHORT, marker))
            self._short_marker = marker
        return self._short_marker

    def _note(self, write: Callable[[], None]) -> None:
        with contextlib.suppress(Unavailable, CouldNotCheck):
            write()


class RecordedRun:
    """A running process whose end is written down."""

    def __init__(self, running: RunningProcess, note_end: Callable[[], None]) -> None:
        self._running = running
        self._note_end = note_end

    @property
    def pid(self) -> int:
        """See RunningProcess.pid."""
        return self._running.pid

    def write(self, data: bytes) -> None:
        """See RunningProcess.write."""
        self._running.write(data)

    def close_stdin(self) -> None:
        """See RunningProcess.close_stdin."""
        self._running.close_stdin()

    def abort(self, reason: str) -> None:
        """See RunningProcess.abort."""
        self._running.abort(reason)

    def wait(self) -> ProcessOutcome:
        """See RunningProcess.wait."""
        outcome = self._running.wait()
        self._note_end()
        return outcome


def _line_of(job_id: str, pid: int, role: str, marker: str) -> list[RecordedProcess]:
    """Return the process `pid`, and its warden where it has one of its own."""
    rows: list[RecordedProcess] = []
    with contextlib.suppress(psutil.Error):  # one that has ended already is nobody's to end
        leader = psutil.Process(pid)
        rows.append(RecordedProcess(job_id, pid, leader.create_time(), role, marker))
        warden = leader.parent()
        # Only a child of ours: the parent of one whose warden is gone is a stranger, and whatever
        # is written down here may be ended some day.
        if warden is not None and warden.ppid() == os.getpid():
            name = f"warden of {role}"
            row = RecordedProcess(job_id, warden.pid, warden.create_time(), name, marker)
            rows.append(row)
    return rows
