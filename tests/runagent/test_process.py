"""The contract of the process seam, held by the real runner and by the shipped fake alike."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from contracts.errors import Unavailable
from runagent.process import (
    ByteSink,
    EndState,
    ProcessOutcome,
    ProcessRunner,
    ProcessSpec,
    Script,
    ScriptedRunner,
    StdinMode,
    run,
    system_runner,
)

PROGRAMS = {
    "says": "printf out; printf err >&2; exit 3",
    "rests": "exec sleep 60",
    "echoes": "exec cat",
    "prints_much": "head -c 5000 /dev/zero | tr '\\0' a; printf end",
}
SCRIPTS = {
    "says": Script(stdout=b"out", stderr=b"err", exit_code=3),
    "rests": Script(runs_for_s=math.inf),
    "echoes": Script(echo_stdin=True),
    "prints_much": Script(stdout=b"a" * 5000 + b"end"),
}


class World:
    """A runner and the place where its programs are."""

    def __init__(self, runner: ProcessRunner, folder: Path) -> None:
        self.runner = runner
        self.folder = folder

    def spec(
        self,
        *argv: str,
        timeout_s: float = 20.0,
        stdin: bytes | None = None,
        keep_stdin_open: bool = False,
        tail_bytes: int = 1000,
        sink: ByteSink | None = None,
    ) -> ProcessSpec:
        return ProcessSpec(
            argv=argv,
            cwd=str(self.folder),
            env={"PATH": f"{self.folder}{os.pathsep}{os.defpath}"},
            timeout_s=timeout_s,
            grace_s=1.0,
            stdin=stdin,
            keep_stdin_open=keep_stdin_open,
            tail_bytes=tail_bytes,
            sink=sink,
        )


@pytest.fixture(params=["real", "scripted"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    for name, text in PROGRAMS.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
    real = request.param == "real"
    return World(system_runner() if real else ScriptedRunner(SCRIPTS), tmp_path)


def test_an_exit_is_reported_with_code_and_both_streams(world: World) -> None:
    outcome = run(world.runner, world.spec("says"))

    assert (outcome.state, outcome.exit_code, outcome.why) == (EndState.EXITED, 3, "")
    assert (outcome.stdout, outcome.stderr) == (b"out", b"err")
    assert (outcome.stdout_total, outcome.stderr_total, outcome.survivors) == (3, 3, 0)
    assert 0 <= outcome.seconds < 20


def test_a_missing_program_is_an_outcome_that_names_it_and_the_remedy(world: World) -> None:
    running = world.runner.start(world.spec("no-such-agent"))
    outcome = running.wait()

    assert running.pid == 0
    assert (outcome.state, outcome.exit_code) == (EndState.NOT_STARTED, None)
    assert "no-such-agent" in outcome.why
    assert "(" in outcome.why


def test_an_empty_command_is_not_started(world: World) -> None:
    assert run(world.runner, world.spec()).state is EndState.NOT_STARTED


def test_the_deadline_ends_it_and_says_so(world: World) -> None:
    began = time.monotonic()
    outcome = run(world.runner, world.spec("rests", timeout_s=0.2))

    assert outcome.state is EndState.TIMED_OUT
    assert "0.2" in outcome.why
    assert time.monotonic() - began < 5


def test_abort_from_another_thread_ends_it_and_the_first_reason_is_kept(world: World) -> None:
    running = world.runner.start(world.spec("rests"))

    def stop() -> None:
        running.abort("first")
        running.abort("second")

    timer = threading.Timer(0.1, stop)
    timer.start()
    outcome = running.wait()
    timer.join()

    assert (outcome.state, outcome.why) == (EndState.ABORTED, "first")
    assert outcome.exit_code == 143


def test_abort_after_the_end_changes_nothing(world: World) -> None:
    running = world.runner.start(world.spec("says"))
    first = running.wait()
    running.abort("too late")

    assert running.wait() == first
    assert first.state is EndState.EXITED


def test_bytes_for_standard_input_arrive_and_end(world: World) -> None:
    assert run(world.runner, world.spec("echoes", stdin=b"a\0\xffb")).stdout == b"a\0\xffb"


def test_standard_input_is_closed_unless_asked_for(world: World) -> None:
    spec = world.spec("echoes")

    assert spec.stdin_mode is StdinMode.CLOSED
    assert run(world.runner, spec).stdout == b""


def test_standard_input_kept_open_takes_writes_in_order_until_closed(world: World) -> None:
    running = world.runner.start(world.spec("echoes", stdin=b"1", keep_stdin_open=True))
    running.write(b"2")
    running.write(b"3")
    running.close_stdin()
    running.close_stdin()

    assert running.wait().stdout == b"123"


def test_a_write_to_an_input_that_is_closed_is_unavailable(world: World) -> None:
    running = world.runner.start(world.spec("echoes", stdin=b"x"))

    with pytest.raises(Unavailable):
        running.write(b"more")
    assert running.wait().stdout == b"x"


def test_an_open_input_does_not_outlive_the_deadline(world: World) -> None:
    outcome = run(world.runner, world.spec("echoes", keep_stdin_open=True, timeout_s=0.2))

    assert outcome.state is EndState.TIMED_OUT


def test_the_tail_is_kept_and_all_bytes_are_counted(world: World) -> None:
    outcome = run(world.runner, world.spec("prints_much", tail_bytes=10))

    assert outcome.stdout == b"aaaaaaaend"
    assert outcome.stdout_total == 5003


def test_no_tail_at_all_can_be_asked_for(world: World) -> None:
    outcome = run(world.runner, world.spec("prints_much", tail_bytes=0))

    assert (outcome.stdout, outcome.stdout_total) == (b"", 5003)


def test_the_live_sink_sees_every_byte_with_its_stream(world: World) -> None:
    seen: dict[str, bytes] = {"stdout": b"", "stderr": b""}

    def sink(stream: str, chunk: bytes) -> None:
        seen[stream] += chunk

    run(world.runner, world.spec("says", sink=sink))

    assert seen == {"stdout": b"out", "stderr": b"err"}


def test_a_sink_that_raises_changes_nothing(world: World) -> None:
    def sink(stream: str, chunk: bytes) -> None:
        raise RuntimeError(stream)

    outcome = run(world.runner, world.spec("says", sink=sink))

    assert (outcome.exit_code, outcome.stdout) == (3, b"out")


def test_an_interruption_ends_the_process_first_and_is_raised_again() -> None:
    calls: list[str] = []

    class Running:
        pid = 1

        def write(self, data: bytes) -> None: ...

        def close_stdin(self) -> None: ...

        def abort(self, reason: str) -> None:
            calls.append(reason)

        def wait(self) -> ProcessOutcome:
            calls.append("wait")
            if len(calls) == 1:
                raise KeyboardInterrupt
            return ProcessOutcome(state=EndState.ABORTED, exit_code=None, why="")

    class Runner:
        def start(self, spec: ProcessSpec) -> Running:
            return Running()

    with pytest.raises(KeyboardInterrupt):
        run(Runner(), ProcessSpec(argv=("x",), cwd="/", env={}, timeout_s=1))
    assert calls == ["wait", "interrupted", "wait"]


def test_a_scripted_program_may_do_its_work_in_the_working_directory(tmp_path: Path) -> None:
    def agent(spec: ProcessSpec) -> Script:
        Path(spec.cwd, "made").write_text("x", encoding="utf-8")
        return Script(exit_code=7)

    runner = ScriptedRunner({"agent": agent})
    spec = ProcessSpec(argv=("agent", "go"), cwd=str(tmp_path), env={}, timeout_s=5)

    assert run(runner, spec).exit_code == 7
    assert (tmp_path / "made").read_text(encoding="utf-8") == "x"
    assert runner.started == [spec]


def test_the_runner_of_windows_is_chosen_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")

    assert type(system_runner()).__name__ == "WindowsRunner"
