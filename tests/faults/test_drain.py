"""Drain: TERM once, twice, to the group, to everything; the deadline; and a broker that is away."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from contracts import naming
from contracts.run_agent import RunAgentResult
from tests.support.broker import Broker, running_broker
from tests.support.fleet import place_program, wait_until
from tests.support.hosts import LANE, Host, listening_host
from worker.broker.beats import read_beat

LANE_AUD = naming.lane_audience(LANE)
# Longer than everything that the end of a listener may wait for; a test that passes is far below.
END_S = 120.0

# Deaf to TERM and in a session of its own: what a stop has to end by force.
DEAF_AGENT = """
import os, signal, sys, time
if "--version" in sys.argv:
    sys.exit()
sys.stdin.read()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    time.sleep(600)
with open("starts.txt", "a") as log:
    log.write("work that must be kept\\n")
with open(os.environ["HOME"] + "/starts", "a") as log:
    log.write("one\\n")
time.sleep(600)
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "broker", fsync="always") as server:
        yield server


@pytest.fixture
def host(broker: Broker, tmp_path: Path) -> Iterator[Host]:
    with listening_host(tmp_path, broker) as listening:
        yield listening


def start_waiting_job(host: Host, *, aud: str | None = None) -> str:
    starts = host.starts
    job_id = host.push(host.job(aud=aud, payload=host.payload(task="wait until released")))
    wait_until(lambda: host.starts > starts, "the agent has started")
    return job_id


def release(host: Host) -> None:
    (host.home / "released").touch()


def family(host: Host) -> list[psutil.Process]:
    assert host.process is not None
    return psutil.Process(host.process.pid).children(recursive=True)


def says_draining(host: Host) -> bool:
    with host.broker.client() as connection:
        return read_beat(connection, host.name).get("draining") is True


def terminate(host: Host, *, times: int = 1) -> None:
    assert host.process is not None
    for number in range(times):
        host.process.send_signal(signal.SIGTERM)
        wait_until(lambda: " draining " in host.log, f"TERM number {number + 1} is noticed")


def ends(host: Host) -> int:
    assert host.process is not None
    code = host.process.wait(END_S)
    host.process = None
    return code


def assert_interrupted(result: RunAgentResult) -> None:
    assert result.status == "failed"
    assert "interrupted" in {risk.code for risk in result.risks}, result.risks
    assert result.needs_human_review
    assert (Path(result.worktreePath) / "starts.txt").exists(), "the work is kept"


@pytest.mark.parametrize("aud", [None, LANE_AUD], ids=["for the host", "for the lane"])
def test_drain_term_lets_the_job_finish_and_takes_no_other(aud: str | None, host: Host) -> None:
    running = start_waiting_job(host, aud=aud)
    terminate(host)
    waiting = host.push(host.job(aud=aud))
    wait_until(lambda: says_draining(host), "the next beat says so")
    release(host)
    assert ends(host) == 0
    assert host.result(running).status == "completed"
    assert host.stored(waiting) is None
    assert host.starts == 1
    host.start()
    assert host.result(waiting).status == "completed", "it was left where it stood"


def test_drain_term_to_an_idle_listener_ends_it_at_once(host: Host) -> None:
    terminate(host)
    assert ends(host) == 0
    with host.broker.client() as connection:
        assert not connection.exists(naming.host_key(host.name)), "nobody waits for this host"


@pytest.mark.parametrize("aud", [None, LANE_AUD], ids=["for the host", "for the lane"])
def test_drain_term_twice_stops_the_job_keeps_its_work_and_says_interrupted(
    aud: str | None, host: Host
) -> None:
    running = start_waiting_job(host, aud=aud)
    started = family(host)
    terminate(host, times=2)
    assert ends(host) == 0
    assert_interrupted(host.result(running))
    assert not any(process.is_running() for process in started), "nothing of the run is left"
    assert 'why="a second signal"' in host.log
    release(host)
    host.start()
    host.run_honest_job()
    assert host.starts == 2, "an interrupted job is not started again"


def test_drain_term_twice_ends_an_agent_that_ignores_term(host: Host) -> None:
    place_program(host.home / "bin", "codex", DEAF_AGENT)
    running = start_waiting_job(host)
    started = family(host)
    terminate(host, times=2)
    assert ends(host) == 0
    assert_interrupted(host.result(running))
    assert not any(process.is_running() for process in started)


def test_drain_term_to_the_group_is_the_same_as_term(host: Host) -> None:
    running = start_waiting_job(host)
    assert host.process is not None
    os.killpg(host.process.pid, signal.SIGTERM)
    wait_until(lambda: " draining " in host.log, "the listener drains")
    release(host)
    assert ends(host) == 0
    assert host.result(running).status == "completed", "no run and no warden is in that group"


def test_drain_term_to_every_process_at_once_still_gives_one_result(host: Host) -> None:
    """A service manager with the wrong kill mode signals the whole control group."""
    running = start_waiting_job(host)
    assert host.process is not None
    for process in [*family(host), psutil.Process(host.process.pid)]:
        with contextlib.suppress(psutil.NoSuchProcess):  # it went with the one before it
            process.terminate()
    assert ends(host) == 0
    assert_interrupted(host.result(running))


def test_drain_stops_what_still_runs_when_its_deadline_has_passed(
    broker: Broker, tmp_path: Path
) -> None:
    with listening_host(tmp_path, broker) as host:
        assert host.stop() == 0
        config = host.fleet_home / "config.toml"
        config.write_text('[host]\ndrain_timeout_s = 1\n[sandbox]\nmode = "none"\n')
        config.chmod(0o600)
        host.start()
        running = start_waiting_job(host)
        terminate(host)
        assert ends(host) == 0
        assert 'why="the drain deadline has passed"' in host.log
        assert_interrupted(host.result(running))


def test_drain_keeps_an_interrupted_result_while_the_broker_is_away(host: Host) -> None:
    running = start_waiting_job(host)
    host.broker.kill()
    terminate(host, times=2)
    assert ends(host) == 0
    assert host.journal_history(running)[-1] == "done", "kept, and not published"
    host.broker.start()
    host.start()
    assert_interrupted(host.result(running))
    assert host.starts == 1


def test_drain_ends_while_the_broker_is_away(host: Host) -> None:
    host.broker.kill()
    wait_until(lambda: "broker_away" in host.log, "the listener notices")
    terminate(host)
    assert ends(host) == 0


def test_drain_ends_while_the_broker_hangs(host: Host) -> None:
    host.broker.suspend()
    try:
        terminate(host)
        assert ends(host) == 0
    finally:
        host.broker.resume()
