"""The crash hook of the tests: exact about its words, and nothing at all when it is not set."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from contracts.errors import InvalidRequest
from worker.crash_points import POINTS, CrashPoints, parse_crash_at
from worker.settings import load_host_settings

REACH_ALL = """
import sys
from worker.crash_points import POINTS, parse_crash_at
crash = parse_crash_at(sys.argv[1])
for point in POINTS:
    print(point, flush=True)
    crash.reach(point)
"""


def reach_all(armed: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", REACH_ALL, armed],
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_without_the_variable_no_point_does_anything(tmp_path: Path) -> None:
    settings = load_host_settings(environ={"FLEET_DISPATCH_HOME": str(tmp_path)})
    assert settings.crash == CrashPoints()
    done = reach_all("")
    assert (done.returncode, done.stdout.split()) == (0, list(POINTS))


def test_the_process_dies_at_the_named_point_and_at_no_other() -> None:
    done = reach_all("run:after_started")
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split()[-1] == "after_started"


def test_a_point_is_named_with_or_without_its_process_and_kills_or_freezes(tmp_path: Path) -> None:
    environ = {"FLEET_DISPATCH_HOME": str(tmp_path), "FLEET_DISPATCH_CRASH_AT": "after_done"}
    assert load_host_settings(environ=environ).crash == CrashPoints("after_done", "kill")
    assert parse_crash_at("listener:after_done=stop") == CrashPoints("after_done", "stop")


@pytest.mark.parametrize(
    "text", ["nonsense", "run:after_claim", "after_claim=explode", ":", "=stop"]
)
def test_a_word_that_names_no_point_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="FLEET_DISPATCH_CRASH_AT"):
        parse_crash_at(text)
