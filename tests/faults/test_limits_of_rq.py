"""Limits of RQ: its job timeout, its registries and its short memory decide nothing of ours."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis
from rq import Queue
from rq.registry import clean_registries
from rq.serializers import JSONSerializer

from contracts import limits, naming
from tests.support.fleet import place_program, wait_until
from tests.support.hosts import Host
from tests.support.processes import hunted, with_token

# Leaves a child in a session of its own and never ends by itself.
ENDLESS = """
import os, subprocess, sys, time
if "--version" in sys.argv:
    sys.exit()
sys.stdin.read()
open("starts.txt", "a").write("one start\\n")
open(os.environ["HOME"] + "/starts", "a").write("one start\\n")
code = "import sys, time; time.sleep(600)"
subprocess.Popen([sys.executable, "-I", "-c", code, "{token}"], start_new_session=True)
time.sleep(600)
"""


def clean_as_rq_does(connection: redis.Redis, queue: str) -> None:
    """Let RQ's own maintenance look at everything, as each of its workers does now and then."""
    clean_registries(Queue(queue, connection=connection, serializer=JSONSerializer))


def test_a_timeout_that_stands_in_rqs_hash_ends_no_run(host: Host) -> None:
    """K63: RQ's deadline is unsigned, and never fires before ours."""
    job_id = host.push(host.job(payload=host.payload(task="wait until released")), queue="parked")
    with host.broker.client() as connection:
        connection.hset(f"rq:job:{job_id}", mapping={"timeout": "1", "ttl": "1"})
        queue = naming.rq_list(host.queue_name)
        connection.lmove(naming.rq_list("parked"), queue, "LEFT", "RIGHT")
        connection.publish(naming.bell_channel(host.queue_name), b"1")
        wait_until(lambda: host.starts == 1, "the agent has started")
        seen = host.log.count("\n")
        beat = connection.get(naming.host_key(host.name))
        for _ in range(2):  # two heartbeats: more than RQ's second
            wait_until(lambda old=beat: connection.get(naming.host_key(host.name)) != old, "a beat")
            beat = connection.get(naming.host_key(host.name))
        clean_as_rq_does(connection, host.queue_name)
    assert host.log.count("\n") == seen, f"nothing happens meanwhile:\n{host.log}"
    host.release()
    assert host.result(job_id).status == "completed"
    assert host.starts == 1


@pytest.mark.slow
@pytest.mark.timeout(400)  # the shortest deadline that a host accepts is 60 s
def test_our_own_deadline_ends_the_run_and_its_child(host: Host) -> None:
    """K63: RQ would leave the child running."""
    with hunted() as token:
        place_program(host.home / "bin", "codex", ENDLESS.replace("{token}", token))
        payload = host.payload(timeoutSec=limits.TIMEOUT_MIN_S)
        job_id = host.push(host.job(payload=payload))
        wait_until(lambda: bool(with_token(token)), "the child is there")
        result = host.result(job_id, seconds=limits.TIMEOUT_MIN_S + 120)
        assert result.status == "timed_out"
        assert (Path(result.worktreePath) / "starts.txt").exists()
        assert with_token(token) == []


def test_a_result_outlives_everything_that_rq_forgets(host: Host) -> None:
    """K65: RQ drops a result after 500 s; ours is kept for 7 days."""
    result = host.run_honest_job()
    host.published(result.jobId)
    stored = host.stored(result.jobId)
    with host.broker.client() as connection:
        kept_s = connection.ttl(naming.result_key(result.jobId))
        assert limits.RESULT_TTL_S - 600 < kept_s <= limits.RESULT_TTL_S
        rq_keys = [key for key in connection.keys("rq:*") if result.jobId.encode() in key]
        assert rq_keys, "RQ knows the job, for its own tools"
        assert all(connection.ttl(key) <= 600 for key in rq_keys)
        clean_as_rq_does(connection, host.queue_name)
        connection.delete(*connection.keys("rq:*"))  # as if RQ's time were over
    assert host.stored(result.jobId) == stored
    assert host.result(result.jobId) == result
    host.run_honest_job()


def test_rqs_maintenance_moves_no_running_and_no_finished_job_to_failed(host: Host) -> None:
    """K61, K60: RQ takes a job whose worker it does not see for abandoned."""
    finished = host.run_honest_job()
    running = host.start_waiting_job()
    with host.broker.client() as connection:
        for job_id in (finished.jobId, running):  # long overdue by RQ's reckoning
            connection.zadd(f"rq:wip:{host.queue_name}", {f"{job_id}:of-rq": 1})
        clean_as_rq_does(connection, host.queue_name)
        state = connection.hget(naming.job_key(running), "state")
    assert state == b"started"
    assert host.result(finished.jobId) == finished
    host.release()
    assert host.result(running).status == "completed"
    assert host.starts == 2
