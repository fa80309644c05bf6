"""A job taken back while something else goes wrong: the listener dies in the midst of it, the
broker is away, the listener drains, the first attempt has failed, git makes the worktree."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.run_agent import RunAgentResult
from dispatch.cancelling import CancelState
from dispatch.client import FleetClient
from dispatch.sweeper import Did
from tests.support.fleet import place_program, wait_until
from tests.support.hosts import Host, are_gone
from tests.support.own_client import own_client, send

WAIT = "wait until released"
FAILING_FIRST = """
import os, sys, time
if {"--version", "--help"} & set(sys.argv):
    sys.exit()
sys.stdin.read()
with open(os.environ["HOME"] + "/starts", "a") as log:
    log.write("one\\n")
if not os.path.exists("first.txt"):
    open("first.txt", "w").close()
    sys.exit(1)
time.sleep(600)
"""
# Stands before git on PATH: making a worktree takes as long as a test wants.
SLOW_GIT = """
import os, sys, time
home = os.environ.get("HOME", "")
if "worktree" in sys.argv and "add" in sys.argv:
    open({mark!r}, "w").close()
    while not os.path.exists({go!r}):
        time.sleep(0.02)
os.execv({git!r}, [{git!r}, *sys.argv[1:]])
"""


@pytest.fixture
def client(host: Host) -> Iterator[FleetClient]:
    with own_client(host) as opened:
        yield opened


def end_of(client: FleetClient, job_id: str) -> RunAgentResult:
    run = client.wait(job_id, 120).run
    assert run is not None
    assert (run.status, run.risks[0].code) == ("failed", "cancelled"), run
    return run


def start_waiting(host: Host, client: FleetClient) -> str:
    before = host.starts
    job_id = send(client, host, task=WAIT)
    wait_until(lambda: host.starts > before, "the agent has started", 90)
    return job_id


def test_a_listener_killed_right_after_it_took_the_order_ends_the_job_at_its_next_start(
    host: Host, client: FleetClient
) -> None:
    assert host.stop() == 0
    host.extra["FLEET_DISPATCH_CRASH_AT"] = "listener:after_cancel_taken"
    host.start()
    job_id = start_waiting(host, client)
    started = host.family()
    assert client.cancel(job_id).state is CancelState.CANCELLING
    assert host.process is not None
    assert host.process.wait(60) == -signal.SIGKILL, "it died in the midst of it"
    host.process = None
    host.extra.clear()
    host.start()
    result = end_of(client, job_id)
    assert (Path(result.worktreePath) / "starts.txt").exists(), "the work is kept"
    wait_until(lambda: are_gone(started), "nothing of it lives")
    host.release()
    host.run_honest_job()
    assert host.starts == 2


def test_an_order_is_kept_while_the_broker_is_away_and_sent_by_the_next_look(
    host: Host, client: FleetClient
) -> None:
    job_id = start_waiting(host, client)
    host.broker.kill()
    assert client.cancel(job_id, why="in the dark").state is CancelState.KEPT
    host.broker.start()
    client.sweep()
    assert "in the dark" in end_of(client, job_id).risks[0].message
    assert host.starts == 1


def test_what_waits_while_the_broker_is_away_is_taken_back_by_the_sweep(
    host: Host, client: FleetClient
) -> None:
    assert host.stop() == 0
    job_id = send(client, host)
    host.broker.suspend()
    try:
        assert client.cancel(job_id).state is CancelState.KEPT
    finally:
        host.broker.resume()
    (view,) = client.views([job_id])
    assert "taken back at" in view.why
    assert [item.did for item in client.sweep()] == [Did.CANCELLED]
    assert client.result(job_id) is not None
    host.start()
    host.run_honest_job()
    assert host.starts == 1


def test_a_draining_listener_still_takes_orders(host: Host, client: FleetClient) -> None:
    job_id = start_waiting(host, client)
    assert host.process is not None
    host.process.send_signal(signal.SIGTERM)
    wait_until(lambda: " draining " in host.log, "it drains")
    client.cancel(job_id)
    end_of(client, job_id)
    assert host.stop(seconds=120) == 0


def test_the_second_attempt_dies_and_there_is_no_third(host: Host, client: FleetClient) -> None:
    place_program(host.home / "bin", "codex", FAILING_FIRST)
    job_id = send(client, host)
    wait_until(lambda: host.starts == 2, "the agent was started again", 90)
    client.cancel(job_id)
    assert end_of(client, job_id).attempts == 2
    assert host.starts == 2


def test_a_worktree_that_is_being_made_is_the_last_thing_that_happens(
    host: Host, client: FleetClient
) -> None:
    mark, go = host.home / "making", host.home / "go"
    git = shutil.which("git")
    program = SLOW_GIT.format(mark=str(mark), go=str(go), git=git)
    place_program(host.home / "bin", "git", program)
    job_id = send(client, host)
    wait_until(mark.exists, "git is at it", 90)
    client.cancel(job_id)
    wait_until(lambda: f"cancel_taken job={job_id}" in host.log, "the host knows")
    go.touch()
    result = end_of(client, job_id)
    assert host.starts == 0
    assert not result.worktreePath or not Path(result.worktreePath).exists()
