"""Who writes Redis can take a lane's claim away and send the job again: at worst each host of the
lane starts it once. One that its sender took back is started by none of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contracts import naming
from tests.support.broker import Broker
from tests.support.fleet import make_repository, wait_until
from tests.support.hosts import LANE, Host, make_host, make_sender
from tests.support.own_client import forget_tree, leave_cancel, sign_cancel

LANE_AUD = naming.lane_audience(LANE)


@pytest.fixture
def hosts(broker: Broker, tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    """Two hosts of one lane; only the first one listens."""
    sender = make_sender(tmp_path / "sender")
    repo = make_repository(tmp_path / "repo", {"readme.txt": "hello\n"})
    first, second = (make_host(tmp_path, broker, sender, repo, name) for name in ("HOSTA", "HOSTB"))
    first.start()
    try:
        yield first, second
    finally:
        for host in (first, second):
            host.stop()


def send_again(host: Host, job: dict[str, Any], text: str) -> None:
    """Take away all that the broker knows of a job, and push it anew."""
    with host.broker.client() as connection:
        for key in (naming.job_key, naming.result_key, naming.claim_key, naming.cancel_key):
            connection.delete(key(job["jti"]))
    host.push(job, envelope=text)


def is_taken(host: Host) -> bool:
    with host.broker.client() as connection:
        return not connection.llen(naming.rq_list(naming.lane_queue(LANE)))


def copies_known(hosts: tuple[Host, Host], job_id: str) -> int:
    return sum(host.log.count(f"duplicate job={job_id}") for host in hosts)


def test_a_lanes_job_starts_at_most_once_on_each_host_however_often_it_comes(
    hosts: tuple[Host, Host],
) -> None:
    first, second = hosts
    job = first.job(aud=LANE_AUD)
    text = first.sender.sign(job)
    first.result(first.push(job, envelope=text))
    first.published(job["jti"])
    assert first.stop() == 0
    forget_tree(first.repo, job["jti"])
    second.start()
    send_again(second, job, text)
    second.result(job["jti"])
    second.published(job["jti"])
    assert (first.starts, second.starts) == (1, 1), "the control: the other host does start it"
    first.start()
    for number in range(1, 6):
        send_again(first, job, text)
        wait_until(lambda n=number: copies_known(hosts, job["jti"]) >= n, f"copy {number}", 60)
    assert (first.starts, second.starts) == (1, 1)

    taken_back = first.job(aud=LANE_AUD)
    text, job_id = first.sender.sign(taken_back), taken_back["jti"]
    order = sign_cancel(first.sender, taken_back)
    leave_cancel(first.broker, job_id, order, [first.name, second.name])
    for host in hosts:
        wait_until(lambda h=host: f"cancel_taken job={job_id}" in h.log, f"{host.name} knows", 60)
    send_again(first, taken_back, text)
    assert [risk.code for risk in first.result(job_id).risks] == ["cancelled"]
    other = first if f"claimed job={job_id}" in second.log else second
    ended = second if other is first else first
    assert ended.stop() == 0
    send_again(other, taken_back, text)
    assert [risk.code for risk in other.result(job_id).risks] == ["cancelled"]
    assert is_taken(other)
    assert (first.starts, second.starts) == (1, 1)
