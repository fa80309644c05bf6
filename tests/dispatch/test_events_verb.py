"""`events`: following a job comes to an end, whatever of its events is missing."""

from __future__ import annotations

from typing import Any, cast

import pytest

from contracts.clock import ManualClock
from contracts.errors import Unavailable
from contracts.events import JobEvent
from dispatch.commands.events import events_of
from dispatch.events import EventFeed

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
