"""Clock jumps: the wall clock of a host moves a day forth or back while it works.

It may refuse what is expired, or issued in the future, by its own time; it starts nothing twice,
breaks nothing off, and no deadline moves. (A host that was suspended stands in
test_host_asleep.py.)
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts import limits, naming
from tests.support.broker import Broker
from tests.support.clocked_hosts import DAY_S, ClockedHost, clocked_host
from tests.support.fleet import wait_until


@pytest.fixture
def host(broker: Broker, tmp_path: Path) -> Iterator[ClockedHost]:
    """A host whose keys are older than any jump below."""
    with clocked_host(tmp_path, broker, key_age_s=3 * DAY_S) as listening:
        yield listening


@pytest.mark.parametrize("jump_s", [DAY_S, -DAY_S], ids=["forth", "back"])
def test_a_jump_during_a_run_breaks_nothing_off_and_starts_nothing_twice(
    jump_s: int, host: ClockedHost
) -> None:
    claims = host.job(payload=host.payload(task="wait until released"))
    envelope = host.sender.sign(claims)
    job_id = host.push(claims, envelope=envelope)
    wait_until(lambda: host.starts == 1, "the agent has started")
    host.move_clock(jump_s)
    with host.broker.client() as connection:
        connection.rpush(naming.rq_list(host.queue_name), job_id)  # it comes again meanwhile
    host.release()
    result = host.result(job_id)
    assert (result.status, result.attempts) == ("completed", 1)
    assert result.durationSeconds < DAY_S / 2, "durations are no difference of wall clocks"
    host.published(job_id)
    stored = host.stored(job_id)
    host.move_clock(0)
    host.push(claims, envelope=envelope)
    host.run_honest_job()
    assert host.stored(job_id) == stored
    assert host.starts == 2


def test_a_result_that_no_key_may_sign_yet_is_kept_and_delivered_by_the_right_clock(
    broker: Broker, tmp_path: Path
) -> None:
    """A clock that jumps to before the key's first day: nothing is lost by it."""
    with clocked_host(tmp_path, broker, key_age_s=0) as host:
        job_id = host.start_waiting_job()
        host.move_clock(-DAY_S)
        host.release()
        wait_until(lambda: f"result_cannot_be_signed job={job_id}" in host.log, "it is said")
        assert host.stored(job_id) is None
        host.move_clock(0)
        assert host.result(job_id, seconds=90).status == "completed"
        assert host.starts == 1


def test_a_job_is_expired_by_the_hosts_time_and_starts_nothing(host: ClockedHost) -> None:
    short = host.job()
    short["exp"] = short["iat"] + 600
    host.move_clock(600 + limits.SKEW_S + 60)
    job_id = host.push(short)
    wait_until(lambda: "expired" in host.log, "it is refused")
    host.move_clock(0)
    with host.broker.client() as connection:
        connection.delete(naming.job_key(job_id))
    host.push(short)
    host.run_honest_job()
    assert host.starts <= 2
    assert host.journal_history(job_id).count("started") <= 1


def test_a_job_from_the_future_is_refused_and_an_honest_one_runs_when_the_clock_is_right(
    host: ClockedHost,
) -> None:
    host.move_clock(-limits.SKEW_S - 600)
    job_id = host.push(host.job())
    host.wait_for_dead_letter("not_yet_valid")
    assert host.stored(job_id) is None
    assert host.starts == 0
    host.move_clock(0)
    host.run_honest_job()


def test_a_difference_within_the_skew_hurts_nobody(host: ClockedHost) -> None:
    for seconds in (limits.SKEW_S - 30, 30 - limits.SKEW_S):
        host.move_clock(seconds)
        host.run_honest_job()


def test_a_restart_after_a_jump_back_still_knows_every_claim(host: ClockedHost) -> None:
    claims = host.job()
    envelope = host.sender.sign(claims)
    job_id = host.push(claims, envelope=envelope)
    first = host.result(job_id)
    host.published(job_id)
    host.kill()
    host.move_clock(-DAY_S)
    host.start()
    with host.broker.client() as connection:
        connection.flushall()
    host.push(claims, envelope=envelope)
    wait_until(
        lambda: host.stored(job_id) is not None or host.dead_letters(), "it is answered or refused"
    )
    assert host.starts == 1
    host.move_clock(0)
    with host.broker.client() as connection:
        connection.delete(naming.job_key(job_id))
    host.push(claims, envelope=envelope)
    assert host.result(job_id) == first
    assert host.starts == 1
