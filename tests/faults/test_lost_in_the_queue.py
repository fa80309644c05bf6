"""Lost in the queue: a job that was accepted is in no list any more. It is pushed again until a
host claims it, its result is found, or it is said that nobody can know."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from contracts import naming
from tests.support.broker import Broker
from tests.support.fleet import wait_until
from tests.support.hosts import LANE, Host
from tests.support.sender_desk import SenderDesk


def empty_it(broker: Broker) -> None:
    with broker.client() as connection:
        connection.flushall()


def restart_without_its_file(broker: Broker) -> None:
    broker.kill()
    shutil.rmtree(broker.folder / "appendonlydir")
    broker.start()


LOSSES = pytest.mark.parametrize("lose", [empty_it, restart_without_its_file])
Lose = Callable[[Broker], None]


@contextmanager
def waiting(desk: SenderDesk, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Yield a `wait` that runs meanwhile; it must have ended well."""
    process = desk.start("wait", *words)
    try:
        yield process
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate(timeout=60)


def list_length(host: Host, queue: str) -> int:
    with host.broker.client() as connection:
        return int(connection.llen(naming.rq_list(queue)))


def listens_to_nothing(host: Host) -> None:
    """Let the host be there, and take nothing: its one slot is busy."""
    host.start_waiting_job()


def test_a_job_that_fell_out_of_its_list_is_pushed_again_by_whoever_waits(host: Host) -> None:
    """K60, K62: nothing is left of the job but the sender's own record and what people see."""
    desk = SenderDesk.of(host)
    listens_to_nothing(host)
    job_id = desk.enqueue(host)["jobId"]
    with host.broker.client() as connection:
        connection.delete(naming.rq_list(host.queue_name), f"rq:job:{job_id}")
    with waiting(desk, job_id):
        wait_until(lambda: list_length(host, host.queue_name) == 1, "it is in its list again")
        host.release()
    assert host.starts == 2
    assert host.journal_history(job_id).count("started") == 1


def test_a_job_that_a_dead_host_had_only_taken_is_not_pushed_again_beside_it(host: Host) -> None:
    """A host that dies between taking and claiming gives the job back when it starts again."""
    assert host.stop() == 0
    desk = SenderDesk.of(host)
    job_id = desk.enqueue(host)["jobId"]
    taken = naming.taken_list(host.queue_name, host.name)
    with host.broker.client() as connection:
        connection.lmove(naming.rq_list(host.queue_name), taken, "LEFT", "RIGHT")
        assert desk.read_json("sweep") == {"jobs": []}
        assert list_length(host, host.queue_name) == 0
        host.start()
        assert host.result(job_id).status == "completed"
    assert host.starts == 1


@LOSSES
def test_a_queued_job_survives_a_loss_of_all_data_without_being_asked_for(
    lose: Lose, host: Host
) -> None:
    desk = SenderDesk.of(host)
    listens_to_nothing(host)
    job_id = desk.enqueue(host)["jobId"]
    lose(host.broker)
    assert desk.row(job_id)["state"] == "queued", "looking at it was enough"
    host.release()
    waited = desk.read_json("wait", job_id, "--timeout", "120")
    assert waited["jobs"][0]["status"] == "completed"
    assert host.journal_history(job_id).count("started") == 1


@LOSSES
def test_a_result_that_was_lost_before_its_sender_saw_it_comes_again(
    lose: Lose, host: Host
) -> None:
    desk = SenderDesk.of(host)
    job_id = desk.enqueue(host)["jobId"]
    assert host.result(job_id).status == "completed"
    host.published(job_id)
    stored = host.stored(job_id)
    lose(host.broker)
    with waiting(desk, job_id):
        pass
    assert host.stored(job_id) == stored
    assert host.starts == 1


@LOSSES
def test_a_running_job_is_found_running_again_and_ends_once(lose: Lose, host: Host) -> None:
    desk = SenderDesk.of(host)
    job_id = desk.enqueue(host, task="wait until released")["jobId"]
    wait_until(lambda: host.starts == 1, "the agent has started")
    lose(host.broker)
    with waiting(desk, job_id):
        wait_until(lambda: desk.row(job_id)["state"] == "started", "the host says that it has it")
        host.release()
    assert host.starts == 1


@LOSSES
def test_a_lane_job_whose_claim_is_unknown_is_left_alone_until_a_person_says_so(
    lose: Lose, host: Host
) -> None:
    assert host.stop() == 0
    desk, queue = SenderDesk.of(host), naming.lane_queue(LANE)
    job_id = desk.enqueue(host, for_lane=True)["jobId"]
    lose(host.broker)
    row = desk.row(job_id)
    assert row["state"] == "claim_unknown"
    assert row["why"].startswith("claim unknown: ")
    done = desk.run("wait", job_id, "--timeout", "4", "--json")
    assert done.returncode == 3
    assert "claim unknown: " in done.stderr
    assert desk.read_json("sweep")["jobs"] == [{"jobId": job_id, "did": "claim_unknown"}]
    assert list_length(host, queue) == 0
    swept = desk.read_json("sweep", job_id, "--resend-lane")
    assert swept["jobs"] == [{"jobId": job_id, "did": "queued"}]
    assert list_length(host, queue) == 1
    host.start()
    assert host.result(job_id).status == "completed"
    assert host.starts == 1


@LOSSES
def test_the_same_key_after_a_loss_finds_the_result_that_the_host_has(
    lose: Lose, host: Host
) -> None:
    desk, key = SenderDesk.of(host), ("--idempotency-key", "k")
    job_id = desk.enqueue(host, *key)["jobId"]
    assert host.result(job_id).status == "completed"
    host.published(job_id)
    lose(host.broker)
    again = desk.enqueue(host, *key, "--wait", "120")
    assert (again["jobId"], again["pushed"]) == (job_id, "queued")
    assert again["status"] == "completed"
    assert host.starts == 1


def test_a_job_that_its_sender_gave_up_does_not_start_any_more(host: Host) -> None:
    """K61, the other way round: what the sender ended it may end only for itself."""
    desk = SenderDesk.of(host)
    running = desk.enqueue(host, task="wait until released")["jobId"]
    wait_until(lambda: host.starts == 1, "the agent has started")
    queued = desk.enqueue(host)["jobId"]
    done = desk.run("wait", running, queued, "--give-up-after", "1", "--json")
    assert done.returncode == 4
    assert list_length(host, host.queue_name) == 0, "what nobody waits for is taken out"
    host.release()
    assert host.result(running).status == "completed"
    late = desk.read_json("result", running)
    assert (late["status"], late["receipt"]["code"]) == ("completed", "abandoned")
    host.run_honest_job()
    assert host.starts == 2, "the one that was given up in its queue never started"
    assert host.stored(queued) is None
    kept = desk.run("result", queued, "--json")
    assert kept.returncode == 4
