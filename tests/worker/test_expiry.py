"""A job that comes to a host when its time is over: it ends as that, signed and once, unrun."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from contracts import naming
from contracts.clock import SystemClock
from contracts.ids import new_job_id
from tests.support.broker import Broker
from tests.support.fleet import wait_until
from tests.support.hosts import LANE, Host, listening_host
from worker.delivery import Ending
from worker.entry import RunEnvelope
from worker.journal.journal import Journal
from worker.journal.records import NewJob

LANE_AUD = naming.lane_audience(LANE)


@pytest.fixture
def host(broker: Broker, tmp_path: Path) -> Iterator[Host]:
    with listening_host(tmp_path, broker) as listening:
        yield listening


def expired_claims(host: Host, aud: str | None) -> dict[str, object]:
    now = int(time.time())
    return host.job(aud=aud, iat=now - 9_000, exp=now - 600)


@pytest.mark.parametrize("aud", [None, LANE_AUD], ids=["for the host", "for the lane"])
def test_an_expired_job_ends_as_expired_and_starts_nothing(aud: str | None, host: Host) -> None:
    claims = expired_claims(host, aud)
    envelope = host.sender.sign(claims)
    job_id = host.push(claims, envelope=envelope)
    result = host.result(job_id)
    assert (result.status, [risk.code for risk in result.risks]) == ("failed", ["expired"])
    assert result.summary.startswith("Not started: its time ran out")
    host.published(job_id)
    assert host.journal_history(job_id) == ["claimed", "done", "published"]
    first = host.stored(job_id)

    with host.broker.client() as connection:  # again: the same answer, byte for byte
        connection.delete(naming.result_key(job_id), naming.job_key(job_id))
    host.push(claims, envelope=envelope)
    wait_until(lambda: host.stored(job_id) is not None, "it is answered again")
    assert host.stored(job_id) == first
    assert host.dead_letters() == []
    host.run_honest_job()
    assert host.starts == 1


def test_a_job_that_ended_elsewhere_gets_no_second_end(host: Host) -> None:
    claims = expired_claims(host, LANE_AUD)
    job_id = str(claims["jti"])
    with host.broker.client() as connection:
        connection.set(naming.claim_key(job_id), "OTHER/instance")
        host.push(claims)
        taken = naming.taken_list(naming.lane_queue(LANE), host.name)
        queue = naming.rq_list(naming.lane_queue(LANE))
        wait_until(
            lambda: not connection.llen(queue) and not connection.llen(taken), "it was looked at"
        )
    host.run_honest_job()
    assert host.stored(job_id) is None
    journal = Journal(host.journal_file, SystemClock())
    assert journal.find(job_id) is None
    journal.close()


def test_a_job_whose_copy_began_in_time_meanwhile_is_not_ended_as_expired(tmp_path: Path) -> None:
    with contextlib.closing(Journal(tmp_path / "journal.sqlite3", SystemClock())) as journal:
        job = NewJob(jti=new_job_id(), iss="SENDER")
        ended: list[object] = []

        def claim(new: NewJob) -> object:
            assert Journal.claim(journal, new) is None, "the copy, in another thread"
            return Journal.claim(journal, new)

        ports: Any = SimpleNamespace(
            journal=SimpleNamespace(find=journal.find, claim=lambda _new: claim(job)),
            lanes=SimpleNamespace(claim=lambda *_args, **_named: None),
            outbox=SimpleNamespace(
                is_stored=lambda _job: False,
                publish=lambda _record: None,
                conclude=lambda *told: ended.append(told),
            ),
            settings=SimpleNamespace(host="HOST", repo_paths={}),
            receipts=SimpleNamespace(of_record=lambda *_said, **_more: None),
            say=lambda *_what, **_details: None,
        )
        ports.journal.note_queued = journal.note_queued
        claims = SimpleNamespace(
            **{name: getattr(job, name) for name in ("jti", "iss", "kind", "lane", "aud", "exp")},
            iat=1,
            payload={},
        )
        expired: Any = SimpleNamespace(claims=claims, is_for_a_lane=True, sha256="", kid="")
        settled: list[bool] = []
        delivery: Any = SimpleNamespace(
            is_queued=True,
            queue_name="queue",
            answer=lambda *_said: None,
            settle=lambda: settled.append(True),
        )
        assert RunEnvelope(ports)._expire(expired, delivery) is Ending.SETTLED
        assert (ended, settled) == ([], [True])
        record = journal.find(job.jti)
        assert record is not None
        assert record.state.value == "claimed"
