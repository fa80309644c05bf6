"""The drain's decisions, on a clock that is moved by hand, and runs that do not want to end."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from contracts.clock import ManualClock, SystemClock
from runagent.process import system_runner
from tests.support.fleet import wait_until
from worker.drain import Drain, longest_end_s
from worker.journal.journal import Journal
from worker.runs.runs import RunDied, Runs, RunTask

# Leaves on the second TERM only: deaf to a polite stop, and ended with its tree.
STUBBORN = """
import os, signal, sys, time
seen = []
def hear(*_):
    seen.append(1)
    open("heard", "w").close()
    if len(seen) > 1:
        os._exit(7)
signal.signal(signal.SIGTERM, hear)
open("up", "w").close()
while True:
    time.sleep(0.1)
"""


class StandIn:
    """What a drain works with: an intake whose jobs end when told, and a memory of what was done.

    `ends_on` is the step after which its jobs have ended.
    """

    def __init__(self, clock: ManualClock, ends_on: str) -> None:
        self.clock, self.ends_on = clock, ends_on
        self.did: list[str] = []

    def count(self) -> int:
        return 1

    def join(self, seconds: float) -> bool:
        if self.ends_on in self.did:
            return True
        self.clock.advance(seconds)
        return False

    def stop_all(self, why: str) -> None:
        self.did.append("stop")
        self.why = why

    def end_all(self) -> None:
        self.did.append("end")

    def close(self) -> None:
        self.did.append("close")

    def say(self, what: str, **_details: object) -> None:
        self.did.append(what)

    def drain(self, *, limit_s: float, hurry: bool = False) -> list[str]:
        event = threading.Event()
        if hurry:
            event.set()
        this = cast("Any", self)
        Drain(this, this, this, hurry=event, limit_s=limit_s, clock=self.clock, say=self.say).run()
        return self.did


def test_what_ends_by_itself_is_not_stopped() -> None:
    assert StandIn(ManualClock(), "draining").drain(limit_s=60) == ["draining"]


def test_the_deadline_stops_and_the_second_signal_does_at_once() -> None:
    clock = ManualClock()
    began = clock.monotonic()
    late = StandIn(clock, "stop")
    assert late.drain(limit_s=60) == ["draining", "stopping", "stop"]
    assert clock.monotonic() - began >= 60
    assert "deadline" in late.why
    clock = ManualClock()
    began = clock.monotonic()
    hurried = StandIn(clock, "stop")
    hurried.drain(limit_s=3_600, hurry=True)
    assert clock.monotonic() - began < 60
    assert "signal" in hurried.why


def test_what_does_not_answer_to_a_stop_is_ended_with_all_it_started() -> None:
    clock = ManualClock()
    began = clock.monotonic()
    did = StandIn(clock, "end").drain(limit_s=0)
    assert did == ["draining", "stopping", "stop", "end", "close"]
    assert clock.monotonic() - began < longest_end_s(0)


def test_a_run_that_had_to_be_ended_says_interrupted_and_none_begins_afterwards(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path / "state" / "journal.sqlite3", SystemClock())
    runs = Runs(
        system_runner(),
        {"PATH": "/usr/bin:/bin"},
        journal,
        other_limits_s=60,
        command=(sys.executable, "-c", STUBBORN),
    )
    task = RunTask(job_id="j", host="H", payload={}, repo_on_host="/r", attempt_limit_s=60)
    ends: list[RunDied] = []

    def run() -> None:
        with pytest.raises(RunDied) as died:
            runs.run(task, tmp_path / "run")
        ends.append(died.value)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until((tmp_path / "run" / "up").exists, "it runs", 60)
    runs.stop_all("a second signal")
    wait_until((tmp_path / "run" / "heard").exists, "it was asked", 60)
    runs.end_all()
    thread.join(60)
    assert not thread.is_alive()
    assert ends[0].code == "interrupted"
    assert "a second signal" in str(ends[0])
    with pytest.raises(RunDied, match="before the run began") as died:
        runs.run(task, tmp_path / "other")
    assert died.value.code == "interrupted"
    assert runs.count() == 0
    journal.close()
