"""Broker restarted: kill -9 and a start with its append-only file, jobs queued and running."""

from __future__ import annotations

import pytest

from contracts import naming
from tests.support.fleet import wait_until
from tests.support.hosts import LANE, Host

LANE_AUD = naming.lane_audience(LANE)


def test_a_broker_that_restarts_loses_and_repeats_no_queued_job(host: Host) -> None:
    """K62: what was queued is there afterwards, and nothing runs twice."""
    running = host.start_waiting_job()
    waiting = [host.push(host.job(aud=aud)) for aud in (None, LANE_AUD, None)]
    host.broker.restart()
    host.release()
    for job_id in (running, *waiting):
        assert host.result(job_id).status == "completed"
    assert host.starts == 4


@pytest.mark.timeout(400)
def test_a_broker_that_restarts_again_and_again_loses_and_repeats_nothing(host: Host) -> None:
    host.release()
    jobs = [host.push(host.job(aud=aud)) for aud in (None, LANE_AUD) * 6]
    for ended in (1, 3, 5, 8):
        wait_until(lambda n=ended: host.log.count(" done ") >= n, f"{ended} jobs ended", 90)
        host.broker.restart()
    for job_id in jobs:
        assert host.result(job_id, seconds=120).status == "completed"
    assert host.starts == len(jobs)
    with host.broker.client() as connection:
        assert connection.keys("fd:result:*:others") == []
        assert connection.keys("fd:taken:*") == []


def test_a_message_that_the_broker_hands_out_again_starts_nothing(host: Host) -> None:
    """A listener that dies after its claim leaves the entry in its list of taken ones: the broker,
    restarted, still has it there and it comes again."""
    job_id = host.start_waiting_job(aud=LANE_AUD)
    host.broker.restart()
    host.kill()
    host.start()
    assert [risk.code for risk in host.result(job_id).risks] == ["listener_lost"]
    with host.broker.client() as connection:
        taken = naming.taken_list(naming.lane_queue(LANE), host.name)
        wait_until(lambda: connection.llen(taken) == 0, "nothing stays taken")
    host.release()
    host.run_honest_job()
    assert host.starts == 2
