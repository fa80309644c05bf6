"""Double delivery: one job comes twice, fifty times, before, during and after its run."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from contracts import limits, naming
from contracts.delivery import DeliveryCode
from tests.support.broker import Broker
from tests.support.fleet import make_repository, wait_until
from tests.support.hosts import LANE, Host, make_host, make_sender
from tests.support.http_door import Answer, open_door

LANE_AUD = naming.lane_audience(LANE)
COPIES = 50


def deliver_copies(host: Host, queue: str, job_id: str, copies: int = COPIES) -> None:
    """Put a job that is queued already into its queue again and again, from many connections."""

    def deliver(_number: int) -> None:
        with host.broker.client() as connection:
            connection.rpush(naming.rq_list(queue), job_id)
            connection.publish(naming.bell_channel(queue), b"1")

    with ThreadPoolExecutor(max_workers=10) as pool:
        list(pool.map(deliver, range(copies)))


def wait_until_all_are_settled(host: Host, queue: str, *hosts: Host) -> None:
    with host.broker.client() as connection:
        keys = [naming.rq_list(queue)]
        keys += [naming.taken_list(queue, item.name) for item in (host, *hosts)]
        wait_until(lambda: not any(map(connection.llen, keys)), "every copy is settled", 90)


def test_fifty_parallel_duplicates_of_a_job_for_a_host_start_once(host: Host) -> None:
    """K69: a message that comes again starts nothing, also while the first one runs."""
    host.stop()
    host.options = ("--concurrency", "4")
    host.start()
    job_id = host.start_waiting_job()
    deliver_copies(host, host.queue_name, job_id)
    wait_until_all_are_settled(host, host.queue_name)
    assert host.log.count(f"duplicate job={job_id} state=started") == COPIES
    host.release()
    result = host.result(job_id)
    deliver_copies(host, host.queue_name, job_id, copies=2)
    wait_until_all_are_settled(host, host.queue_name)
    assert host.result(job_id) == result
    assert host.starts == 1
    assert host.journal_history(job_id).count("started") == 1


def test_fifty_parallel_duplicates_of_a_job_for_a_lane_start_on_one_host_once(
    broker: Broker, tmp_path: Path
) -> None:
    repo = make_repository(tmp_path / "repo", {"readme.txt": "hello\n"})
    sender = make_sender(tmp_path / "sender")
    options = ("--concurrency", "3")
    one, two = (
        make_host(tmp_path, broker, sender, repo, name, options=options) for name in ("ONE", "TWO")
    )
    queue = naming.lane_queue(LANE)
    job_id = one.push(one.job(aud=LANE_AUD))
    deliver_copies(one, queue, job_id)  # nobody listens yet: both hosts find all of it at once
    try:
        one.start()
        two.start()
        result = one.result(job_id)
        wait_until_all_are_settled(one, queue, two)
    finally:
        one.stop()
        two.stop()
    assert result.status == "completed"
    assert one.starts + two.starts == 1
    with broker.client() as connection:
        assert not connection.exists(naming.other_results_key(job_id))


def test_fifty_copies_over_queue_and_http_at_once_start_once_and_the_rest_get_signed_receipts(
    host: Host,
) -> None:
    """K69: one start; every other copy is answered `duplicate` under the host's own key."""
    host.stop()
    host.options = ("--concurrency", "2")
    door = open_door(host)
    host.start()
    claims = host.job(payload=host.payload(task="wait until released"))
    envelope, job_id = host.sender.sign(claims), claims["jti"]
    host.push(claims, envelope=envelope)
    with ThreadPoolExecutor(max_workers=12) as pool:
        posted = [pool.submit(door.post_until_taken, envelope) for _ in range(24)]
        deliver_copies(host, host.queue_name, job_id, copies=25)
        answers = [item.result() for item in posted]
    wait_until_all_are_settled(host, host.queue_name)
    with host.broker.client() as connection:
        left = connection.lrange(naming.delivery_key(job_id), 0, -1)
        assert 0 < connection.ttl(naming.delivery_key(job_id)) <= limits.DELIVERY_TTL_S
    assert {item.status for item in answers} == {202}
    codes = Counter(door.code(item) for item in answers)
    codes.update(door.receipt(Answer(0, {}, text)).code for text in left)
    # The one that started over the queue needs no receipt: its claim and its result say it.
    assert codes[DeliveryCode.DUPLICATE] == 49
    assert codes[DeliveryCode.ACCEPTED] + (len(left) == 25) == 1
    assert {door.receipt(item).jobSha256 for item in answers} == {
        hashlib.sha256(base64.b64decode(json.loads(envelope)["payload"])).hexdigest()
    }
    host.release()
    assert host.result(job_id).status == "completed"
    assert door.result(job_id).status == "completed"
    assert host.starts == 1
    assert host.journal_history(job_id).count("started") == 1


@pytest.mark.parametrize("aud", [None, LANE_AUD], ids=["for the host", "for the lane"])
def test_the_same_bytes_sent_again_after_the_end_bring_the_same_result(
    aud: str | None, host: Host
) -> None:
    claims = host.job(aud=aud)
    envelope = host.sender.sign(claims)
    job_id = host.push(claims, envelope=envelope)
    first = host.result(job_id)
    host.published(job_id)
    stored = host.stored(job_id)
    with host.broker.client() as connection:
        connection.delete(naming.result_key(job_id), naming.job_key(job_id))
    assert host.push(claims, envelope=envelope) == job_id
    assert host.result(job_id) == first
    assert host.stored(job_id) == stored, "byte for byte"
    assert host.starts == 1
