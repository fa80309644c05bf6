"""Results on their way back, with real keys and a real server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from contracts import naming
from contracts.clock import SystemClock
from contracts.errors import Unavailable
from contracts.ids import new_job_id
from contracts.run_agent import RunAgentResult
from dispatch.keyring import HostKeyring
from dispatch.queue import FleetQueue
from tests.support.broker import Broker
from tests.support.hosts import make_host, make_sender
from worker.broker.board import Board
from worker.broker.outbox import Outbox
from worker.journal.journal import Journal
from worker.journal.records import NewJob
from worker.reserve import Reserve
from worker.runs.outcome import lost_run


@dataclass
class Desk:
    """An outbox with all that it works with."""

    journal: Journal
    queue: FleetQueue
    keys_dir: Path
    said: list[str] = field(default_factory=list)

    def outbox(self, *, revoked: frozenset[str] = frozenset()) -> Outbox:
        clock = SystemClock()
        by_hand = self.keys_dir / "revoked.json"
        by_hand.write_text(json.dumps({"kids": sorted(revoked)}))
        by_hand.chmod(0o600)
        keyring = HostKeyring.load(self.keys_dir, "HOSTA", clock)
        board = Board(self.queue.connection, "HOSTA", clock)
        reserve = Reserve(self.keys_dir.parent, size_bytes=4096)
        return Outbox(self.journal, self.queue, board, keyring, clock, self.say, reserve=reserve)

    def say(self, what: str, **_details: object) -> None:
        self.said.append(what)

    def claimed(self) -> tuple[str, RunAgentResult]:
        job = NewJob(jti=new_job_id(), iss="alice", aud="host:HOSTA", facts={"kid": KID})
        assert self.journal.claim(job) is None
        record = self.journal.find(job.jti)
        assert record is not None
        return job.jti, lost_run(record, host="HOSTA", worktree="", code="x", why="y")


KID = "alice/1/job/host:HOSTA"


@pytest.fixture
def desk(broker: Broker, tmp_path: Path) -> Iterator[Desk]:
    host = make_host(tmp_path, broker, make_sender(tmp_path / "sender"), tmp_path)
    queue = FleetQueue.connect(broker.url)
    journal = Journal(host.journal_file, SystemClock())
    yield Desk(journal, queue, host.fleet_home / "keys")
    journal.close()
    queue.close()


def test_a_result_without_a_key_waits_for_one_and_is_then_signed_once(desk: Desk) -> None:
    job_id, result = desk.claimed()
    revoked = desk.outbox(revoked=frozenset({"alice/1/result/host:HOSTA"}))
    revoked.conclude(job_id, result)
    assert revoked.deliver_all()
    assert "result_cannot_be_signed" in desk.said
    assert desk.queue.result_texts(job_id) == []
    assert desk.outbox().deliver_all()
    (text,) = desk.queue.result_texts(job_id)
    record = desk.journal.find(job_id)
    assert record is not None
    assert record.sealed == text
    assert record.published_at is not None


def test_another_result_in_its_place_is_an_alarm_and_ours_is_kept_beside_it(desk: Desk) -> None:
    job_id, result = desk.claimed()
    desk.queue.store_result(job_id, "somebody else's")
    outbox = desk.outbox()
    outbox.conclude(job_id, result)
    outbox.deliver_all()
    assert "another_result_was_there" in desk.said
    assert len(desk.queue.result_texts(job_id)) == 2


def test_a_second_end_changes_nothing(desk: Desk) -> None:
    job_id, result = desk.claimed()
    outbox = desk.outbox()
    outbox.conclude(job_id, result)
    outbox.conclude(job_id, result.model_copy(update={"summary": "other"}))
    outbox.conclude(new_job_id(), result)
    assert desk.said.count("done") == 1


def test_what_has_no_result_is_not_published(desk: Desk) -> None:
    job_id, _ = desk.claimed()
    record = desk.journal.find(job_id)
    assert record is not None
    desk.outbox().publish(record)
    assert desk.queue.result_texts(job_id) == []


def test_a_closed_outbox_waits_for_no_disk(desk: Desk) -> None:
    job_id, result = desk.claimed()
    outbox = desk.outbox()
    outbox.close()
    outbox.conclude(job_id, result)
    record = desk.journal.find(job_id)
    assert record is not None
    assert record.result is None, "the next listener finds it without an end"


def test_a_disk_that_says_no_is_waited_for(desk: Desk) -> None:
    job_id, result = desk.claimed()
    outbox = desk.outbox()
    finish, failed = desk.journal.finish, threading.Event()

    def finish_later(*arguments: object, **options: object) -> bool:
        if not failed.is_set():
            failed.set()
            raise Unavailable("the disk is full")
        return finish(*arguments, **options)  # type: ignore[arg-type]

    desk.journal.finish = finish_later  # type: ignore[method-assign]
    outbox.conclude(job_id, result)
    assert desk.said == ["journal_unavailable", "done"]


def test_the_loop_delivers_when_it_is_woken_and_ends_when_it_is_told(desk: Desk) -> None:
    outbox, stop = desk.outbox(), threading.Event()
    thread = threading.Thread(target=outbox.run, args=(stop,))
    thread.start()
    job_id, result = desk.claimed()
    with desk.queue.connection.pubsub(ignore_subscribe_messages=True) as subscription:
        subscription.subscribe(naming.done_channel(job_id))
        outbox.conclude(job_id, result)
        give_up = time.monotonic() + 30
        while not desk.queue.result_texts(job_id) and time.monotonic() < give_up:
            subscription.get_message(timeout=1)
    stop.set()
    outbox.wake()
    thread.join(10)
    assert not thread.is_alive()
    assert len(desk.queue.result_texts(job_id)) == 1


def test_results_that_wait_together_are_marked_together(desk: Desk) -> None:
    outbox, commits = desk.outbox(), []
    jobs = [desk.claimed() for _ in range(40)]
    for job_id, result in jobs:
        outbox.conclude(job_id, result)
    desk.journal._file._connection.set_trace_callback(
        lambda statement: commits.append(statement) if statement == "COMMIT" else None
    )
    assert outbox.deliver_all()
    assert len(commits) == 2, "32 and the rest"
    assert desk.said.count("published") == 40
    assert list(desk.journal.unpublished()) == []


def test_what_was_delivered_before_the_broker_went_away_is_marked(
    desk: Desk, broker: Broker
) -> None:
    outbox = desk.outbox()
    first, second = desk.claimed(), desk.claimed()
    outbox.conclude(*first)
    outbox.conclude(*second)
    deliver = outbox._board.deliver

    def deliver_one(job_id: str, sealed: str, status: str) -> bool:
        if job_id == second[0]:
            broker.kill()
        return deliver(job_id, sealed, status)

    outbox._board.deliver = deliver_one  # type: ignore[method-assign]
    assert not outbox.deliver_all()
    assert [record.jti for record in desk.journal.unpublished()] == [second[0]]
    broker.start()
    outbox._board.deliver = deliver  # type: ignore[method-assign]
    assert outbox.deliver_all()
    assert list(desk.journal.unpublished()) == []


def test_a_loop_that_delivers_ends_at_once_when_it_is_told(desk: Desk) -> None:
    outbox, stop = desk.outbox(), threading.Event()
    thread = threading.Thread(target=outbox.run, args=(stop,))
    for _ in range(20):
        job_id, result = desk.claimed()
        outbox.conclude(job_id, result)
    thread.start()
    stop.set()
    outbox.wake()
    thread.join(20)  # less than it waits when nothing is due
    assert not thread.is_alive()
