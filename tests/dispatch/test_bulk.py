"""Many jobs at once: checked before, few round trips, and known where they are when it breaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer

from contracts import limits, naming
from contracts.errors import (
    BulkStopped,
    CouldNotCheck,
    ExitCode,
    InvalidRequest,
    KeysRefused,
    Refused,
    Unavailable,
)
from contracts.job_claims import read_job_claims
from dispatch import bulk_checks
from dispatch.async_client import AsyncFleetClient
from dispatch.job_handle import JobHandle
from dispatch.queue import FleetQueue, Outgoing, Pushed
from tests.dispatch.desk import PAYLOAD, Desk
from tests.support.broker import Broker

_COUNTED_NOT = {"config|resetstat", "info", "hello", "client|setname", "client|setinfo"}


def many(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{**PAYLOAD, "ticket": f"T-{number}", **more} for number in range(count)]


def commands(broker: Broker, act: Callable[[], object]) -> Counter[str]:
    """Return how often the broker was given each command while `act` ran."""
    with broker.client() as redis:
        redis.config_resetstat()
        act()
        stats: Any = redis.info("commandstats")
    found = Counter({name.removeprefix("cmdstat_"): row["calls"] for name, row in stats.items()})
    return Counter({name: count for name, count in found.items() if name not in _COUNTED_NOT})


def test_each_of_many_is_a_job_of_its_own_in_the_order_given(desk: Desk) -> None:
    done: list[int] = []
    with desk.client() as client:
        sent = client.enqueue_many(many(600), lane="A", on_batch=done.append)
        ids = [job.job_id for (job,) in sent]
        assert [client._sent.find(job).ticket for job in ids[:3]] == ["T-0", "T-1", "T-2"]  # type: ignore[union-attr]
        assert all(client._sent.find(job).pushed_at for job in ids)  # type: ignore[union-attr]
    assert desk.queued("fd.lane.A") == ids
    assert len(set(ids)) == 600
    assert {job.pushed for (job,) in sent} == {Pushed.QUEUED}
    assert done == [256, 512, 600]
    claims = read_job_claims(desk.job_bytes(ids[599], "PC1"))
    assert (claims.jti, claims.payload["ticket"]) == (ids[599], "T-599")


def test_each_payload_goes_to_each_of_its_hosts(desk: Desk) -> None:
    with desk.client() as client:
        sent = client.enqueue_many(many(3), lane="A", targets=["PC1", "PC2"], ttl_s=60)
    assert [[job.target for job in several] for several in sent] == [["PC1", "PC2"]] * 3
    assert desk.queued("fd.lane.A@PC1") == [several[0].job_id for several in sent]
    assert desk.queued("fd.lane.A@PC2") == [several[1].job_id for several in sent]


def test_no_payloads_are_no_jobs(desk: Desk) -> None:
    with desk.client() as client:
        assert client.enqueue_many([], lane="A") == []


async def _many(desk: Desk) -> list[int]:
    async with AsyncFleetClient.open(desk.settings) as client:
        sent = await client.enqueue_many(many(2), lane="A")
        return [len(several) for several in sent]


def test_an_asynchronous_client_sends_many_as_well(desk: Desk) -> None:
    import asyncio

    assert asyncio.run(_many(desk)) == [1, 1]


def test_all_are_checked_before_one_is_sent_and_each_problem_has_its_place(desk: Desk) -> None:
    payloads = many(300)
    payloads[7] = {**PAYLOAD, "ticket": "../x"}
    payloads[299] = {**PAYLOAD, "agent": "nobody", "more": 1}
    with desk.client() as client:
        with pytest.raises(InvalidRequest) as refused:
            client.enqueue_many(payloads, lane="A")
        assert {item.field for item in refused.value.problems} == {
            "payload 8: ticket",
            "payload 300: agent",
            "payload 300: more",
        }
        assert all(item.remedy for item in refused.value.problems)
        with pytest.raises(InvalidRequest, match="have 80 more problems"):
            client.enqueue_many([{**PAYLOAD, "ticket": "-"}] * 100, lane="A")
        with pytest.raises(InvalidRequest, match="payload 1: payload"):
            client.enqueue_many(["no object"], lane="A")  # type: ignore[list-item]
        with pytest.raises(InvalidRequest, match="ttl"):
            client.enqueue_many(many(1), lane="A", ttl_s=0)
        with pytest.raises(InvalidRequest, match="give-up"):
            client.enqueue_many(many(1), lane="A", give_up_after_s=0)
        with pytest.raises(KeysRefused, match="no host holds"):
            client.enqueue_many(many(1), lane="C")
        assert client._sent.recent(9) == []
    with desk.broker.client() as redis:
        assert redis.dbsize() == 0


def test_what_is_too_large_is_refused_before_one_is_sent(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = {**PAYLOAD, "task": "x" * limits.PAYLOAD_MAX_BYTES}
    with desk.client() as client:
        with pytest.raises(InvalidRequest, match=r"payload 2: payload: is \d+ bytes"):
            client.enqueue_many([PAYLOAD, large], lane="A")
        with pytest.raises(InvalidRequest, match="10000 at most"):
            client.enqueue_many([PAYLOAD] * 10_001, lane="A")
        monkeypatch.setattr(bulk_checks, "BULK_MAX_CHARS", 100)
        with pytest.raises(InvalidRequest, match="100 at most"):
            client.enqueue_many([PAYLOAD] * 3, lane="A")
        assert client._sent.recent(9) == []


def test_large_payloads_go_in_batches_that_are_bounded_in_bytes(desk: Desk) -> None:
    done: list[int] = []
    with desk.client() as client:
        client.enqueue_many(many(5, task="x" * 1_200_000), lane="A", on_batch=done.append)
    assert done == [3, 5]
    assert len(desk.queued("fd.lane.A")) == 5


def test_a_batch_costs_one_transaction_and_one_write_of_its_queue(desk: Desk) -> None:
    with desk.client() as client:
        client.enqueue(PAYLOAD, lane="A")  # the mark and the hosts are known from here on
        one = commands(desk.broker, lambda: client.enqueue_many(many(1), lane="A"))
        batch = commands(desk.broker, lambda: client.enqueue_many(many(256), lane="A"))
        three = commands(desk.broker, lambda: client.enqueue_many(many(600), lane="A"))
    for name in ("multi", "exec", "rpush", "sadd", "zadd", "publish"):
        assert (one[name], batch[name], three[name]) == (1, 1, 3), name
    assert (batch["hset"], batch["expire"]) == (512, 512)
    assert "watch" not in batch + three


def test_one_job_costs_one_round_trip(desk: Desk) -> None:
    desk.beat("PC1", "A")
    with desk.client() as client:
        client.enqueue(PAYLOAD, lane="A")
        found = commands(desk.broker, lambda: client.enqueue(PAYLOAD, lane="A"))
    assert found["exec"] == 1
    assert set(found) <= {"multi", "exec", "hset", "expire", "sadd", "rpush", "zadd", "publish"}


def test_a_batch_is_one_step_of_our_own_record_before_its_push(desk: Desk) -> None:
    said: list[str] = []
    with desk.client() as client:
        with client._sent._file.reading() as connection:
            connection.set_trace_callback(said.append)
        client.enqueue_many(many(300), lane="A")
        with client._sent._file.reading() as connection:
            connection.set_trace_callback(None)
    assert said.count("BEGIN IMMEDIATE") == 4  # two batches: a record, and a note of the push


def test_the_same_many_under_one_key_are_the_same_jobs(desk: Desk) -> None:
    with desk.client() as client:
        first = client.enqueue_many(many(300), lane="A", idempotency_key="nightly")
        again = client.enqueue_many(many(300), lane="A", idempotency_key="nightly")
        longer = client.enqueue_many(many(302), lane="A", idempotency_key="nightly")
        single = client.enqueue(many(1)[0], lane="A", idempotency_key="nightly#1")
    ids = [job.job_id for (job,) in first]
    assert [job.job_id for (job,) in again] == ids
    assert {job.pushed for (job,) in again} == {Pushed.ALREADY_THERE}
    assert [job.job_id for (job,) in longer[:300]] == ids
    assert [job.pushed for (job,) in longer[300:]] == [Pushed.QUEUED] * 2
    assert single[0].job_id == ids[0]
    assert desk.queued("fd.lane.A") == [job.job_id for (job,) in longer]


def test_a_key_that_was_used_for_another_payload_is_refused_before_one_is_sent(desk: Desk) -> None:
    with desk.client() as client:
        client.enqueue_many(many(2), lane="A", idempotency_key="k")
        with pytest.raises(Refused, match=r"'k#2' was used for another job: payload.mode differ"):
            client.enqueue_many(
                [many(1)[0], {**many(2)[1], "mode": "x"}, PAYLOAD], lane="A", idempotency_key="k"
            )
        with pytest.raises(InvalidRequest, match="idempotency-key"):
            client.enqueue_many(many(1), lane="A", idempotency_key="k" * 199)
    assert len(desk.queued("fd.lane.A")) == 2


@pytest.mark.parametrize(("key", "targets"), [(None, None), ("k", ["PC1"])])
def test_a_broker_killed_in_the_middle_leaves_each_job_queued_or_known(
    desk: Desk, key: str | None, targets: list[str] | None
) -> None:
    def kill(done: int) -> None:
        if done == 512:
            desk.broker.kill()

    with desk.client() as client:
        with pytest.raises(BulkStopped) as stopped:
            client.enqueue_many(
                many(900), lane="A", targets=targets, on_batch=kill, idempotency_key=key
            )
        error = stopped.value
        jobs = [j for several in error.jobs for j in several if isinstance(j, JobHandle)]
        assert (len(jobs), error.unsent, error.exit_code) == (768, 768, ExitCode.WAIT_TIMED_OUT)
        assert [job.pushed for job in jobs] == [Pushed.QUEUED] * 512 + [Pushed.UNKNOWN] * 256
        assert "up to payload 512 all are queued" in str(error)
        assert "from payload 769 on none was sent" in str(error)
        assert len(client._sent.recent(1_000)) == 768
        desk.broker.start()
        queued = set(desk.queued("fd.lane.A@PC1" if targets else "fd.lane.A"))
        assert queued <= {job.job_id for job in jobs[:512]}  # nothing of the rest ever arrived
        assert [client._sent.find(job.job_id).pushed_at for job in jobs[512:]] == [None] * 256  # type: ignore[union-attr]
        if key is not None:
            sent = client.enqueue_many(many(900), lane="A", targets=targets, idempotency_key=key)
            assert [job.job_id for (job,) in sent[:768]] == [job.job_id for job in jobs]
            waiting = desk.queued("fd.lane.A@PC1")
            assert len(waiting) == 900
            assert set(waiting) == {job.job_id for (job,) in sent}


def test_a_record_that_cannot_be_written_in_the_middle_says_what_is_queued(desk: Desk) -> None:
    folder = desk.settings.places.state_dir

    def open_to_all(done: int) -> None:
        folder.chmod(0o755)

    with desk.client() as client:
        with pytest.raises(BulkStopped) as stopped:
            client.enqueue_many(many(300), lane="A", on_batch=open_to_all)
        folder.chmod(0o700)
        error = stopped.value
        jobs = [job for several in error.jobs for job in several if isinstance(job, JobHandle)]
        assert [job.job_id for job in jobs] == desk.queued("fd.lane.A")
        assert [job.pushed for job in jobs] == [Pushed.QUEUED] * 256
        assert error.unsent == 256
        assert "up to payload 256 all are queued, from payload 257 on none was sent" in str(error)
        assert len(client._sent.recent(1_000)) == 256


def test_a_record_that_cannot_be_written_at_once_says_why(desk: Desk) -> None:
    with desk.client() as client:
        client.enqueue(PAYLOAD, lane="A")
        desk.settings.places.state_dir.chmod(0o755)
        with pytest.raises(KeysRefused):
            client.enqueue_many(many(3), lane="A")
    assert len(desk.queued("fd.lane.A")) == 1


def test_a_broker_that_is_away_at_once_queues_nothing_and_says_so(desk: Desk) -> None:
    desk.broker.stop()
    with desk.client() as client:
        with pytest.raises(
            BulkStopped, match="nothing was queued: from payload 1 on none was sent"
        ):
            client.enqueue_many(many(3), lane="A")
        assert [job.broker for job in client._sent.recent(9)] == [""] * 3  # surely never pushed
        with pytest.raises(BulkStopped, match="nothing was queued"):
            client.enqueue_many(many(3), lane="A", idempotency_key="k")
        # What stands under its key may have been pushed by the call before.
        with pytest.raises(BulkStopped, match="from payload 1 to payload 3 nobody knows"):
            client.enqueue_many(many(3), lane="A", idempotency_key="k")


def test_a_broker_that_goes_away_before_a_batch_leaves_no_doubt_of_it(desk: Desk) -> None:
    with desk.client() as client:

        def stop(done: int) -> None:
            desk.broker.stop()
            client._enqueuing._mark._held = None  # it is asked for anew

        with pytest.raises(BulkStopped) as stopped:
            client.enqueue_many(many(300), lane="A", on_batch=stop)
    assert "up to payload 256 all are queued, from payload 257 on none was sent" in str(
        stopped.value
    )


def test_a_connection_that_broke_meanwhile_loses_no_new_job_and_doubles_none(desk: Desk) -> None:
    with desk.client() as client:
        client.enqueue(PAYLOAD, lane="A")
        with desk.broker.client() as redis:
            redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        sent = client.enqueue_many(many(2), lane="A")
    waiting = desk.queued("fd.lane.A")
    assert waiting[1:] == [job.job_id for (job,) in sent]


def test_what_is_no_queue_takes_nothing_of_a_new_job(desk: Desk) -> None:
    for targets, names in ((None, ["fd.lane.A"]), (["PC1", "PC2"], ["fd.lane.A@PC2"])):
        with desk.broker.client() as redis, desk.client() as client:
            redis.flushall()
            for name in names:
                redis.set(naming.rq_list(name), "x")
            with pytest.raises(Exception, match="holds something else"):
                client.enqueue(PAYLOAD, lane="A", targets=targets)
            left: Any = redis.keys("*")
            assert not [key for key in left if key.startswith((b"rq:job:", b"fd:job:"))]
            assert redis.llen(naming.rq_list("fd.lane.A@PC1")) == 0


class _Late(FleetQueue):
    """A queue whose list becomes something else between the look at it and the push."""

    def _watch_found(self, *looked: Any) -> list[Pushed]:
        found = super()._watch_found(*looked)
        self.connection.set(naming.rq_list("fd.lane.A"), "x")
        return found


def test_a_push_that_fails_takes_nothing_from_a_job_that_stood_there_before(broker: Broker) -> None:
    queue = _Late.connect(broker.url)
    one, two = (
        Outgoing(job_id=letter * 20, queue_name="fd.lane.A", envelope_text=letter)
        for letter in "ab"
    )
    queue.push_fresh([one])
    with pytest.raises(CouldNotCheck, match="holds something else"):
        queue.push_all([one, two])
    with broker.client() as redis:
        left: Any = redis.keys("*:job:*")
        assert sorted(left) == [b"fd:job:" + b"a" * 20, b"rq:job:" + b"a" * 20]


def test_a_full_broker_takes_nothing_of_a_new_job(desk: Desk) -> None:
    with desk.client() as client:
        client.enqueue(PAYLOAD, lane="A")
        with desk.broker.client() as redis:
            redis.config_set("maxmemory", "100kb")
        with pytest.raises(Unavailable, match=r"is full \(maxmemory\)"):
            client.enqueue(PAYLOAD, lane="A")
    assert len(desk.queued("fd.lane.A")) == 1


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_new_job_stands_in_the_queue_word_for_word_as_rq_writes_it(
    broker: Broker, size: int
) -> None:
    queue, job_id, text = FleetQueue.connect(broker.url), "a" * 20, "e\u00e9" * size
    job = Outgoing(
        job_id=job_id, queue_name="fd.lane.A", envelope_text=text, shown={"repo": "\u00fc"}
    )
    assert queue.push_fresh([job]) == [Pushed.QUEUED]
    with broker.client() as redis:
        ours: Any = redis.hgetall(f"rq:job:{job_id}")
        found = Job.fetch(job_id, connection=redis, serializer=JSONSerializer)
        assert (found.args, found.get_status()) == ([text], JobStatus.QUEUED)
        written = Job.create(
            naming.ENTRY_PATH,
            args=[text],
            connection=redis,
            serializer=JSONSerializer,
            id="b" * 20,
            origin="fd.lane.A",
            status=JobStatus.QUEUED,
            description=f"fleet-dispatch job {job_id}",
            timeout=-1,
            result_ttl=60,
        )
        written.save()
        theirs: Any = redis.hgetall(f"rq:job:{'b' * 20}")
        for name in (b"data", b"created_at"):
            assert len(ours.pop(name)) > 0
            del theirs[name]
        assert ours == theirs
        assert abs((found.created_at - written.created_at).total_seconds()) < 60
    assert queue.shown(job_id) == {"jti": job_id, "repo": "\u00fc"}
