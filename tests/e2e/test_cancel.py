"""A sender takes its jobs back, wherever they are: waiting, running, validated, done, not come yet.

One host with two slots for all of them; every job is one of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts import naming
from contracts.run_agent import RunAgentResult
from dispatch.cancelling import CancelState
from dispatch.client import FleetClient
from dispatch.private_files import write_private_file
from tests.support.broker import running_broker
from tests.support.fleet import place_program, wait_until
from tests.support.hosts import AGENT, LANE, Host, are_gone, listening_host
from tests.support.own_client import leave_cancel, own_client, send, sign_cancel
from tests.support.sender_desk import SenderDesk

# Deaf to TERM, with a child in a session of its own: what a stop has to end by force.
DEAF_AGENT = """
import os, signal, sys, time
if {"--version", "--help"} & set(sys.argv):
    sys.exit()
task = sys.stdin.read()
with open("starts.txt", "a") as log:
    log.write("work that must be kept\\n")
if "validate me" not in task:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
with open(os.environ["HOME"] + "/starts", "a") as log:
    log.write("one\\n")
if "validate me" not in task:
    time.sleep(600)
"""
WAIT = "wait until released"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("cancel")
    with running_broker(folder / "broker") as server:
        with listening_host(folder / "fleet", server, options=("--concurrency", "2")) as host:
            yield host


@pytest.fixture
def host(shared: Host) -> Iterator[Host]:
    """The host, with its usual agent and nobody released."""
    (shared.home / "released").unlink(missing_ok=True)
    yield shared
    place_program(shared.home / "bin", "codex", AGENT)
    shared.release()


@pytest.fixture
def client(host: Host) -> Iterator[FleetClient]:
    with own_client(host) as opened:
        yield opened


def end_of(client: FleetClient, job_id: str) -> RunAgentResult:
    run = client.wait(job_id, 120).run
    assert run is not None
    return run


def codes(result: RunAgentResult) -> list[str]:
    return [risk.code for risk in result.risks]


def wait_for_start(host: Host, before: int) -> None:
    wait_until(lambda: host.starts > before, "the agent has started", 90)


def test_what_runs_dies_with_all_it_started_and_its_work_is_kept(
    host: Host, client: FleetClient
) -> None:
    place_program(host.home / "bin", "codex", DEAF_AGENT)
    before = host.starts
    job_id = send(client, host)
    wait_for_start(host, before)
    started = host.family()
    cancelled = client.cancel(job_id, why="the plan\x1b[31m changed")
    assert cancelled.state is CancelState.CANCELLING
    result = end_of(client, job_id)
    assert (result.status, codes(result)[0]) == ("failed", "cancelled")
    assert "interrupted" not in codes(result)
    assert "the plan" in result.risks[0].message
    assert "\x1b" not in result.summary
    assert result.worktreePath in result.risks[0].message
    assert (Path(result.worktreePath) / "starts.txt").exists(), "the work is kept"
    wait_until(lambda: are_gone(started), "nothing of it lives")
    again = client.cancel(job_id)
    assert again.state is CancelState.FINISHED
    assert host.starts == before + 1


def test_a_validation_in_progress_dies_too(host: Host, client: FleetClient) -> None:
    place_program(host.home / "bin", "codex", DEAF_AGENT)
    mark = host.home / "validating"
    command = f"touch {mark}; (setsid sleep 600 &) ; sleep 600"
    job_id = send(client, host, task="validate me", validateCommand=command)
    wait_until(mark.exists, "the validation runs", 90)
    started = host.family()
    client.cancel(job_id)
    result = end_of(client, job_id)
    assert (result.status, codes(result)[0]) == ("failed", "cancelled")
    assert (Path(result.worktreePath) / "starts.txt").exists()
    wait_until(lambda: are_gone(started), "nothing of it lives")


def test_what_waits_is_taken_out_of_its_queue_and_ended_by_its_sender(
    host: Host, client: FleetClient
) -> None:
    before = host.starts
    busy = [send(client, host, task=WAIT) for _ in range(2)]
    wait_until(lambda: host.starts == before + 2, "both slots are busy", 90)
    waiting = [send(client, host), send(client, host, for_lane=True)]
    desk = SenderDesk.of(host)
    said = desk.read_json("cancel", *waiting, "--why", "a slip", "--wait", "60")
    assert [row["state"] for row in said["jobs"]] == ["cancelled", "cancelled"]
    for job_id in waiting:
        assert codes(end_of(client, job_id)) == ["cancelled"]
    with host.broker.client() as connection:
        for queue in (host.queue_name, naming.lane_queue(LANE)):
            assert connection.llen(naming.rq_list(queue)) == 0
    host.release()
    assert [end_of(client, job_id).status for job_id in busy] == ["completed"] * 2
    host.run_honest_job()
    assert host.starts == before + 3, "neither of the two was started"
    done = desk.read_json("cancel", busy[0])
    assert done["jobs"][0]["state"] == "already_finished"


def test_what_the_broker_may_have_forgotten_is_ended_by_the_host_that_meets_it(
    host: Host, client: FleetClient
) -> None:
    """Nobody can prove any more that no host had the job: only the host may end it then."""
    before = host.starts
    busy = [send(client, host, task=WAIT) for _ in range(2)]
    wait_until(lambda: host.starts == before + 2, "both slots are busy", 90)
    waiting = [send(client, host), send(client, host, for_lane=True)]
    with host.broker.client() as connection:
        connection.set(naming.data_mark(), "another broker's")
    assert {client.cancel(job_id).state for job_id in waiting} == {CancelState.CANCELLING}
    host.release()
    for job_id in waiting:
        found = client.wait(job_id, 120)
        assert (found.host, found.receipt) == (host.name, None)
        assert found.run is not None
        assert codes(found.run) == ["cancelled"]
        assert host.journal_history(job_id)[:1] == ["claimed"]
    for job_id in busy:
        assert end_of(client, job_id).status == "completed"
    assert host.starts == before + 2


def test_a_cancel_that_comes_before_its_job_keeps_it_from_ever_starting(host: Host) -> None:
    before = host.starts
    job = host.job()
    leave_cancel(host.broker, job["jti"], sign_cancel(host.sender, job), [host.name])
    wait_until(lambda: f"cancel_taken job={job['jti']}" in host.log, "the host keeps it")
    with host.broker.client() as connection:
        connection.delete(naming.cancel_key(job["jti"]))
    result = host.result(host.push(job))
    assert codes(result) == ["cancelled"]
    assert host.starts == before


def test_a_command_of_the_other_kind_dies_as_well(host: Host, client: FleetClient) -> None:
    rules = f'''[senders."*"]
kinds = ["run_agent", "shell"]
repo_roots = ["{host.home.parent}"]
validate = "any"
'''
    write_private_file(host.fleet_home / "policy.toml", rules.encode(), replace=True)
    mark = host.home / "working"
    payload = {"command": f"touch {mark}; (setsid sleep 600 &) ; sleep 600"}

    def try_one() -> str:
        (job,) = client.enqueue(payload, kind="shell", lane=LANE, targets=[host.name])
        wait_until(lambda: mark.exists() or host.stored(job.job_id) is not None, "it begins", 90)
        return job.job_id

    job_id = try_one()
    while not mark.exists():  # the policy was not read again yet
        job_id = try_one()
    started = host.family()
    client.cancel(job_id, why="enough")
    found = client.wait(job_id, 120)
    assert found.status == "failed"
    assert [risk.code for risk in found.outcome.risks][:1] == ["cancelled"]
    wait_until(lambda: are_gone(started), "nothing of it lives")
