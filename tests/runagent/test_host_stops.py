"""Stopping a run from outside, wherever it is; and the governor, who may stop it before."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from contracts.run_agent import AgentName, Status
from runagent.governor import CommandGovernor
from runagent.process import system_runner
from tests.support.agents.bench import GOOD, Bench, codes

HANGS = (("write", "half.txt", "half\n"), ("say", "Working."), ("hang",))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def when(is_so: Callable[[], bool], then: Callable[[], None]) -> threading.Thread:
    """Do `then` as soon as something is so; give up after 20 s."""

    def watch() -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not is_so():
            time.sleep(0.02)
        then()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_a_stop_ends_the_agent_s_tree_and_keeps_its_work(bench: Bench) -> None:
    cancelled = threading.Event()
    pid_file = bench.bin / "hanging.pid"
    watch = when(lambda: pid_file.exists() and pid_file.stat().st_size > 0, cancelled.set)
    result = bench.run("claude", HANGS, validateCommand="touch ran", ports={"cancelled": cancelled})
    watch.join()
    assert result.status is Status.FAILED
    assert "interrupted" in codes(result)
    assert result.changed_files == ("half.txt",)
    assert result.tests_attempted == ()
    assert len(bench.calls("claude")) == 1
    assert not psutil.pid_exists(int(pid_file.read_text()))


def test_a_stop_before_the_start_leaves_nothing(bench: Bench) -> None:
    cancelled = threading.Event()
    cancelled.set()
    result = bench.run("claude", GOOD, ports={"cancelled": cancelled})
    assert result.status is Status.FAILED
    assert "interrupted" in codes(result)
    assert (result.attempts, result.worktreePath) == (0, "")
    assert bench.calls("claude") == []
    assert bench.is_untouched()


def test_a_stop_during_validation_is_not_a_pass(bench: Bench) -> None:
    cancelled = threading.Event()
    mark = bench.folder / "validating"
    watch = when(mark.exists, cancelled.set)
    command = f"touch {mark}; trap 'exit 0' TERM; sleep 600 & wait"
    result = bench.run("claude", GOOD, validateCommand=command, ports={"cancelled": cancelled})
    watch.join()
    assert result.status is Status.FAILED
    assert "interrupted" in codes(result)
    assert result.changed_files == ("src/new.py",)


def test_an_agent_that_exits_0_when_it_is_stopped_is_not_completed(bench: Bench) -> None:
    polite = bench.bin / "grok"
    polite.write_text(
        '#!/bin/sh\ntrap \'echo "{\\"type\\":\\"end\\"}"; exit 0\' TERM\n'
        f"touch {bench.bin}/started\nsleep 600 & wait\n"
    )
    cancelled = threading.Event()
    watch = when((bench.bin / "started").exists, cancelled.set)
    result = bench.run("grok", ports={"cancelled": cancelled}, validateCommand="true")
    watch.join()
    assert result.status is Status.FAILED
    assert "interrupted" in codes(result)


def test_a_keyboard_interrupt_is_a_result(bench: Bench) -> None:
    def interrupt(state: str, _attempt: int, _why: str) -> None:
        if state == "started":
            raise KeyboardInterrupt

    result = bench.run("claude", GOOD, ports={"record": interrupt})
    assert result.status is Status.FAILED
    assert "interrupted" in codes(result)
    assert bench.is_untouched()


def governor(bench: Bench, text: str) -> CommandGovernor:
    program = bench.bin / "governor"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    command = (str(program), "admit")
    return CommandGovernor(
        {AgentName.GEMINI: command}, system_runner(), bench.environment, cwd=str(bench.folder)
    )


def test_a_denial_of_the_governor_is_rate_limited_in_its_words_and_starts_nothing(
    bench: Bench,
) -> None:
    gate = governor(bench, "echo 'pool weekly: 0 left'; exit 3")
    result = bench.run("gemini", GOOD, ports={"governor": gate})
    assert result.status is Status.RATE_LIMITED
    assert "pool weekly: 0 left" in result.summary
    assert any("pool weekly: 0 left" in risk for risk in result.known_risks)
    assert bench.calls("gemini") == []
    assert bench.is_untouched()


def test_the_governor_is_asked_before_each_start(bench: Bench) -> None:
    gate = governor(bench, f"echo asked >> {bench.folder}/asked")
    result = bench.run("gemini", (("exit", 1),), GOOD, ports={"governor": gate})
    assert result.status is Status.COMPLETED
    assert (bench.folder / "asked").read_text() == "asked\nasked\n"


def test_a_denial_of_the_retry_keeps_the_first_attempt_s_work(bench: Bench) -> None:
    gate = governor(bench, f"test ! -e {bench.folder}/asked && touch {bench.folder}/asked")
    steps = (("write", "half.txt", "half"), ("exit", 1))
    result = bench.run("gemini", steps, ports={"governor": gate})
    assert result.status is Status.RATE_LIMITED
    assert result.changed_files == ("half.txt",)
    assert len(bench.calls("gemini")) == result.attempts == 1


def test_agents_without_a_governor_are_not_asked_about(bench: Bench) -> None:
    result = bench.run("claude", GOOD, ports={"governor": governor(bench, "exit 3")})
    assert result.status is Status.COMPLETED


def test_a_missing_governor_warns_and_lets_the_run_go_on(bench: Bench) -> None:
    gate = governor(bench, "exit 0")
    os.unlink(bench.bin / "governor")
    result = bench.run("gemini", GOOD, ports={"governor": gate}, validateCommand="true")
    assert result.status is Status.COMPLETED
    assert "governor_missing" in codes(result)
    assert result.needs_human_review
