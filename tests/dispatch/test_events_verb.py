"""`events`: following a job comes to an end, whatever of its events is missing."""

from __future__ import annotations

from typing import Any, cast

import pytest

from contracts import naming
from contracts.clock import ManualClock
from contracts.envelope import EVENT_TYPE, seal
from contracts.errors import Unavailable
from contracts.event_batch import EventBatch
from contracts.events import JobEvent
from dispatch.commands.events import events_of
from dispatch.events import EventFeed
from dispatch.keyring import SenderKeyring
from dispatch.keys import EVENT
from dispatch.queue import FleetQueue
from dispatch.sent import SentJob
from tests.dispatch.desk import Desk

JOB = "0123456789abcdef0123"


def event(seq: int, **data: Any) -> JobEvent:
    return JobEvent(jobId=JOB, attempt=1, seq=seq, time="t", kind="text", data=data)


class Feed:
    """Gives what the broker has, and `later` when its host was asked."""

    def __init__(self, *now: JobEvent, later: tuple[JobEvent, ...] = ()) -> None:
        self.due, self.later = list(now), list(later)
        self.asked, self.has_ended, self.has_gap = 0, False, False
        self.notes: list[str] = []

    def read(self) -> list[JobEvent]:
        found, self.due = self.due, []
        self.has_ended = self.has_ended or any(item.data.get("final") for item in found)
        return found

    def ask(self) -> bool:
        self.asked += 1
        self.due, self.later = self.later, []
        return True


def follow(feed: Feed, seen: list[int], done_after: int) -> None:
    looks = iter(range(10**6))
    events = events_of(
        cast("EventFeed", feed),
        follow=True,
        is_done=lambda: next(looks) >= done_after,
        clock=ManualClock(),
    )
    seen.extend(item.seq for item in events)


@pytest.mark.parametrize("first", [(), (event(1),)], ids=["no event at all", "the last one lost"])
@pytest.mark.parametrize("done_after", [0, 50])
def test_following_a_job_that_has_ended_ends_though_its_last_event_never_comes(
    first: tuple[JobEvent, ...], done_after: int
) -> None:
    feed, seen = Feed(*first), list[int]()
    with pytest.raises(Unavailable):
        follow(feed, seen, done_after)
    assert seen == [item.seq for item in first]
    assert feed.asked


def test_the_host_of_a_job_that_has_ended_is_asked_for_what_the_broker_lost() -> None:
    feed, seen = Feed(event(1), later=(event(2), event(3, final=True))), list[int]()
    follow(feed, seen, 0)
    assert seen == [1, 2, 3]


def test_what_fills_a_gap_is_taken_however_much_came_before_its_turn(desk: Desk) -> None:
    desk.enrol("PC1", "A")
    signer = desk.host_ring("PC1").host_signer(EVENT, "alice")
    sent = SentJob(
        job_id=JOB,
        aud="host:PC1",
        lane="A",
        kind="run_agent",
        queue_name="q",
        sha256="0" * 64,
        iat=0,
        exp=2**40,
        agent="codex",
        ticket="T-1",
        repo="/src",
        mode="build",
        envelope="",
    )

    def batch(first: int) -> str:
        claims = EventBatch(
            iss="PC1",
            aud="alice",
            jti=JOB,
            iat=1,
            jobSha256=sent.sha256,
            first=first,
            lines=(event(first).model_dump_json(),),
        )
        return seal(claims.model_dump_json().encode(), EVENT_TYPE, [signer])

    with desk.broker.client() as connection:
        for first in (*range(2, 202), 1):
            connection.xadd(naming.events_stream(JOB), {"e": batch(first)})
    ring = SenderKeyring.load(desk.settings.places.keys_dir, "alice", desk.clock)
    queue = FleetQueue.connect(desk.broker.url)
    feed = EventFeed(queue, ring, sent, desk.clock)
    assert [item.seq for item in feed.read()][:100] == list(range(1, 101))
    assert feed.notes == []
    queue.close()
