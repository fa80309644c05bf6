"""The Windows process runner: every process in a job object that dies with us.

THIS MODULE HAS NEVER BEEN RUN ON WINDOWS. Its text and structure are tested on Linux; the calls
follow Microsoft's documentation of job objects. Owns the job object, the start in suspended state
(so that no child can be born outside the job), and the shape of a pwsh command line. It must
import everywhere, and never build a command line from text that was not quoted here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, Final

from contracts.errors import Unavailable
from runagent._job_object import JobObject
from runagent._pipes import READ_BYTES, Tail
from runagent._unstarted import UnstartedProcess
from runagent.process import (
    ByteSink,
    EndState,
    ProcessOutcome,
    ProcessSpec,
    RunningProcess,
    StdinMode,
)

CREATE_SUSPENDED: Final = 0x0000_0004
CREATE_NEW_PROCESS_GROUP: Final = 0x0000_0200
CREATE_NO_WINDOW: Final = 0x0800_0000
_LINGER_S: Final = 2.0  # for the last bytes, when a process outside the job holds a pipe
_SLICE_S: Final = 0.2  # how soon an abort from another thread, or a Ctrl-C, is seen


def quote_pwsh(text: str) -> str:
    """Return `text` as a single-quoted PowerShell string: nothing in it is expanded."""
    return "'" + text.replace("'", "''") + "'"


def pwsh_command(prompt_file: str, argv: Sequence[str], *, prompt_on_stdin: bool) -> str:
    """Return the script that reads the staged prompt and then, on another line, names the agent.

    `argv` holds the agent and its flags; the prompt follows as the last argument, or comes on its
    standard input. Both halves of the barrier matter. Without 'Stop' a failed Get-Content is no
    end, and the agent starts with an empty brief. And pwsh starts both ends of a pipeline at once,
    so `Get-Content … | agent` starts the agent whatever becomes of the read: it is assigned first.
    """
    agent = " ".join(["&", *(quote_pwsh(argument) for argument in argv)])
    call = f"$p | {agent}" if prompt_on_stdin else f"{agent} $p"
    return "\n".join(
        (
            "$ErrorActionPreference = 'Stop'",
            f"$p = Get-Content -Raw -Encoding utf8 -LiteralPath {quote_pwsh(prompt_file)}",
            "if ([string]::IsNullOrEmpty($p)) { throw 'the staged prompt is empty' }",
            call,
            "exit $LASTEXITCODE",
        )
    )


def pwsh_argv(script: str) -> tuple[str, ...]:
    """Return the argv that runs `script` without profile, prompt or window."""
    return ("pwsh", "-NoLogo", "-NoProfile", "-NonInteractive", "-Command", script)


def resolved_argv(spec: ProcessSpec) -> tuple[str, ...] | None:
    """Return what to start for `spec`: a real executable as it is, a `.cmd`, `.bat` or `.ps1` shim
    (how npm installs agents) through pwsh, which resolves and quotes it; None when not found."""
    found = shutil.which(spec.argv[0], path=spec.env.get("PATH", ""))
    if found is None and spec.argv[0].lower().endswith(".ps1") and os.path.isfile(spec.argv[0]):
        found = spec.argv[0]
    if found is None:
        return None
    if not found.lower().endswith((".cmd", ".bat", ".ps1")):
        return (found, *spec.argv[1:])
    call = " ".join(["&", *(quote_pwsh(argument) for argument in (found, *spec.argv[1:]))])
    return pwsh_argv(f"$ErrorActionPreference = 'Stop'\n{call}\nexit $LASTEXITCODE")


class WindowsRunner:
    """Starts processes in job objects."""

    def start(self, spec: ProcessSpec) -> RunningProcess:
        """See ProcessRunner.start."""
        argv = resolved_argv(spec) if spec.argv else None
        if argv is None:
            name = spec.argv[0] if spec.argv else "the command"
            return UnstartedProcess(f"{name}: not found on PATH (install it, or correct PATH)")
        try:
            job = JobObject()
        except OSError as error:
            return UnstartedProcess(f"{spec.argv[0]} was not started: {error}")
        try:
            child = subprocess.Popen(
                argv,
                cwd=spec.cwd,
                env=dict(spec.env),
                stdin=subprocess.DEVNULL
                if spec.stdin_mode is StdinMode.CLOSED
                else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                creationflags=CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP | CREATE_NO_WINDOW,
            )
        except OSError as error:
            job.close()
            return UnstartedProcess(f"{argv[0]} did not start: {error.strerror} (see the reason)")
        try:
            job.adopt(int(getattr(child, "_handle")))  # noqa: B009 - Windows only
        except OSError as error:
            child.kill()
            child.wait()
            job.close()
            return UnstartedProcess(f"{argv[0]} was not started: {error}")
        return WindowsProcess(spec, child, job)


class WindowsProcess:
    """One process tree in its job object."""

    def __init__(self, spec: ProcessSpec, child: subprocess.Popen[bytes], job: JobObject) -> None:
        self.pid = child.pid
        self._spec, self._child, self._job = spec, child, job
        self._began = time.monotonic()
        self._out, self._err = Tail(spec.tail_bytes), Tail(spec.tail_bytes)
        self._reason: str | None = None
        self._ended = False
        self._lock = threading.Lock()  # standard input and the reason
        self._readers = (
            _start(_drain, child.stdout, "stdout", self._out, spec.sink),
            _start(_drain, child.stderr, "stderr", self._err, spec.sink),
        )
        if child.stdin is not None:
            _start(self._feed)

    def _feed(self) -> None:
        with contextlib.suppress(Unavailable):
            self._send(self._spec.stdin or b"")
        if not self._spec.keep_stdin_open:
            self.close_stdin()

    def _send(self, data: bytes) -> None:
        with self._lock:
            stream = self._child.stdin
            if stream is None or stream.closed:
                raise Unavailable("the process's standard input is closed")
            try:
                stream.write(data)
            except OSError as error:
                raise Unavailable("the process does not read its standard input") from error

    def write(self, data: bytes) -> None:
        """See RunningProcess.write."""
        if not self._spec.keep_stdin_open:
            raise Unavailable("standard input of this process was not kept open")
        self._send(data)

    def close_stdin(self) -> None:
        """See RunningProcess.close_stdin."""
        with self._lock, contextlib.suppress(OSError):
            if self._child.stdin is not None:
                self._child.stdin.close()

    def abort(self, reason: str) -> None:
        """See RunningProcess.abort. Takes no lock: a blocked write must not hold it up."""
        if self._reason is None and not self._ended:
            self._reason = reason
            self._job.end_all()

    def wait(self) -> ProcessOutcome:
        """See RunningProcess.wait."""
        state, why = self._await_end()
        self._ended = True
        survivors = self._job.living() if state is EndState.EXITED else 0
        self._job.end_all()
        code = self._child.wait()
        self._job.close()
        until = time.monotonic() + _LINGER_S
        for reader in self._readers:
            reader.join(max(0.0, until - time.monotonic()))
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

    def _await_end(self) -> tuple[EndState, str]:
        deadline = self._began + self._spec.timeout_s
        while (rest := deadline - time.monotonic()) > 0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(timeout=min(rest, _SLICE_S))
                break
        if self._reason is not None:
            return EndState.ABORTED, self._reason
        if self._child.poll() is None:
            return EndState.TIMED_OUT, f"ended after its {self._spec.timeout_s:g} s"
        return EndState.EXITED, ""


def _start(work: Callable[..., None], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    thread.start()
    return thread


def _drain(pipe: IO[bytes], name: str, tail: Tail, sink: ByteSink | None) -> None:
    while chunk := os.read(pipe.fileno(), READ_BYTES):
        tail.keep(chunk)
        if sink is not None:
            with contextlib.suppress(Exception):  # a sink's trouble must not stop the reading
                sink(name, chunk)
