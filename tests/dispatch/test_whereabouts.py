"""Where a job is on its way, as its sender sees it, and what tells that a broker lost its data."""

from __future__ import annotations

from contracts import naming
from dispatch.queue import Place
from tests.dispatch.desk import PAYLOAD, Desk
from tests.dispatch.ways import QUEUE, claim, drop, take, where


def test_a_job_is_seen_wherever_it_is_on_its_way(desk: Desk) -> None:
    with desk.client() as client:
        (job,) = client.enqueue_agent(PAYLOAD, lane="A", targets=["PC1"])
    places = [where(desk, "b" * 20), where(desk, job.job_id)]
    take(desk, QUEUE, "PC1")
    places.append(where(desk, job.job_id))
    claim(desk, job.job_id, "PC1")
    places.append(where(desk, job.job_id))
    drop(desk, naming.claim_key(job.job_id))
    places.append(where(desk, job.job_id))  # a claim runs out; what the host wrote stands
    queue = desk.queue()
    queue.show(job.job_id, {"state": "refused"})
    places.append(where(desk, job.job_id))
    queue.show(job.job_id, {"state": "queued"})
    places.append(where(desk, job.job_id))
    desk.answer(job.job_id, "PC1")
    places.append(where(desk, job.job_id))
    assert places == [
        (Place.ABSENT, ""),
        (Place.LISTED, ""),
        (Place.LISTED, ""),
        (Place.CLAIMED, "PC1"),
        (Place.CLAIMED, "PC1"),
        (Place.REFUSED, "PC1"),
        (Place.NOWHERE, "PC1"),
        (Place.FINISHED, ""),
    ]


def test_a_claim_names_its_host_when_nothing_else_does(desk: Desk) -> None:
    with desk.broker.client() as redis:
        redis.set(naming.claim_key("b" * 20), "PC2/0123")
    assert where(desk, "b" * 20) == (Place.CLAIMED, "PC2")


def test_keys_of_other_types_are_read_as_empty(desk: Desk) -> None:
    job = "b" * 20
    with desk.broker.client() as redis:
        redis.set(naming.job_key(job), "x")
        redis.sadd(naming.claim_key(job), "x")
        redis.set(naming.rq_list(QUEUE), "x")
        redis.set(naming.taken_list(QUEUE, "PC1"), "x")
    assert where(desk, job) == (Place.ABSENT, "")
    assert desk.queue().queue_lengths([QUEUE]) == [0]
    with desk.broker.client() as redis:
        redis.delete(naming.job_key(job))
        redis.hset(naming.job_key(job), mapping={"state": "x" * 1_000, "host": "PC1"})
    assert where(desk, job) == (Place.NOWHERE, "PC1")


def test_the_mark_of_the_broker_changes_with_its_data(desk: Desk) -> None:
    queue = desk.queue()
    first = queue.data_mark()
    assert queue.data_mark() == first
    with desk.broker.client() as redis:
        redis.flushall()
    emptied = queue.data_mark()
    desk.broker.restart()
    restarted = queue.data_mark()
    drop(desk, naming.data_mark())
    with desk.broker.client() as redis:
        redis.rpush(naming.data_mark(), "garbage")
    marks = {first, emptied, restarted, queue.data_mark(), queue.data_mark()}
    assert len(marks) == 5
    assert queue.data_mark() == queue.data_mark()


def test_a_broker_that_does_not_tell_what_it_is_has_no_mark_twice(desk: Desk) -> None:
    queue = desk.queue()
    with desk.broker.client() as redis:
        redis.execute_command("ACL", "SETUSER", "default", "-info")
    assert queue.data_mark() != queue.data_mark()


def test_a_job_is_seen_at_both_ends_of_a_long_queue_and_in_its_middle(desk: Desk) -> None:
    ids = [f"{number:020x}" for number in range(1_000)]
    with desk.broker.client() as redis:
        redis.rpush("rq:queue:fd.lane.A@PC1", *ids)
    for job_id in (ids[0], ids[255], ids[256], ids[600], ids[-1]):
        assert where(desk, job_id)[0] is Place.LISTED
    assert where(desk, "f" * 20)[0] is Place.ABSENT
