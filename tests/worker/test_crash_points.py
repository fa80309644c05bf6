"""The crash hook of the tests: exact about its words, and nothing at all when it is not set."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.errors import InvalidRequest
from tests.support.broker import Broker
from tests.support.fleet import make_repository, wait_until
from tests.support.hosts import Host, make_host, make_sender
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


@pytest.fixture
def host(broker: Broker, tmp_path: Path) -> Iterator[Host]:
    made = make_host(
        tmp_path, broker, make_sender(tmp_path), make_repository(tmp_path / "repo", {"a": "b\n"})
    )
    try:
        yield made
    finally:
        made.stop()


def test_every_point_lies_on_the_way_of_an_honest_job_and_the_job_still_ends_once(
    host: Host,
) -> None:
    for point, process in POINTS.items():
        host.extra = {"FLEET_DISPATCH_CRASH_AT": f"{process}:{point}"}
        host.start()
        starts, job_id = host.starts, host.push(host.job())
        if process == "listener":
            listener = host.process
            assert listener is not None
            wait_until(lambda ended=listener: ended.poll() is not None, f"it dies {point}", 60)
            assert listener.returncode == -signal.SIGKILL, point
            host.process = None
            host.extra = {}
            host.start()
        result = host.result(job_id, seconds=120)
        assert result.status in ("completed", "failed"), point
        assert host.starts - starts <= 1, point
        wait_until(
            lambda job=job_id: host.journal_history(job)[-1] == "published", f"{point}: sent", 60
        )
        assert host.stop() == 0
