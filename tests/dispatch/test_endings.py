"""When a sender pushes a job again, and when it ends one itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contracts.receipt import ReceiptCode
from dispatch.endings import ending_of, is_claim_unknown, is_due, may_push_again
from dispatch.heartbeats import Heartbeat
from dispatch.hosts import HostView
from dispatch.queue import Place, Whereabouts
from dispatch.sent import SentJob

DAY = 86_400
IAT = 1_000_000
HOST_JOB = SentJob(
    job_id="a" * 20,
    aud="host:PC1",
    lane="A",
    kind="run_agent",
    queue_name="fd.lane.A@PC1",
    sha256="0" * 64,
    iat=IAT,
    exp=IAT + DAY,
    agent="codex",
    ticket="T-1",
    repo="/r",
    mode="build",
    envelope="signed",
    broker="mark",
    pushed_at=IAT,
)
LANE_JOB = replace(HOST_JOB, aud="lane:A", queue_name="fd.lane.A")
LIVE = HostView(name="PC1", last_seen=1.0, beat=Heartbeat(host="PC1", lanes=("A",)))
SILENT = HostView(name="PC1", last_seen=1.0, beat=None)
LISTED, ABSENT, NOWHERE = (
    Whereabouts(place) for place in (Place.LISTED, Place.ABSENT, Place.NOWHERE)
)
CLAIMED = Whereabouts(Place.CLAIMED, "started", "PC1")


@pytest.mark.parametrize("job", [HOST_JOB, LANE_JOB])
@pytest.mark.parametrize("where", [LISTED, Whereabouts(Place.REFUSED, "refused")])
def test_a_job_that_stood_unclaimed_until_its_time_was_over_is_expired(
    job: SentJob, where: Whereabouts
) -> None:
    assert ending_of(job, where, [SILENT], now=job.exp + 120) is None
    assert ending_of(job, where, [SILENT], now=job.exp + 121) is ReceiptCode.EXPIRED


def test_a_job_in_its_queue_is_not_given_up_by_itself() -> None:
    week = replace(LANE_JOB, exp=IAT + 7 * DAY)
    assert ending_of(week, LISTED, [], now=IAT + 2 * DAY) is None


@pytest.mark.parametrize(
    ("where", "hosts", "ends"),
    [
        (CLAIMED, [LIVE], False),
        (CLAIMED, [SILENT], True),
        (CLAIMED, [], True),
        (Whereabouts(Place.CLAIMED), [LIVE], True),
        (ABSENT, [LIVE], True),
        (Whereabouts(Place.FINISHED), [LIVE], True),  # something stands there that is no result
    ],
)
def test_without_a_word_of_the_sender_a_job_is_given_up_after_a_day_unless_a_living_host_has_it(
    where: Whereabouts, hosts: list[HostView], ends: bool
) -> None:
    assert ending_of(LANE_JOB, where, hosts, now=IAT + DAY - 1) is None
    found = ending_of(LANE_JOB, where, hosts, now=IAT + DAY)
    assert found is (ReceiptCode.ABANDONED if ends else None)


@pytest.mark.parametrize("where", [LISTED, CLAIMED, ABSENT, NOWHERE])
def test_the_senders_own_moment_holds_whatever_the_host_does(where: Whereabouts) -> None:
    told = replace(HOST_JOB, give_up_at=IAT + 60)
    assert ending_of(told, where, [LIVE], now=IAT + 59) is None
    assert ending_of(told, where, [LIVE], now=IAT + 60) is ReceiptCode.ABANDONED


def test_a_later_moment_of_the_sender_outlasts_the_day() -> None:
    told = replace(HOST_JOB, give_up_at=IAT + 3 * DAY)
    assert ending_of(told, CLAIMED, [SILENT], now=IAT + 2 * DAY) is None
    assert ending_of(told, LISTED, [SILENT], now=told.exp + 121) is ReceiptCode.EXPIRED


@pytest.mark.parametrize("where", [ABSENT, NOWHERE])
def test_a_hosts_own_job_is_pushed_again_while_it_may_be_taken(where: Whereabouts) -> None:
    assert may_push_again(HOST_JOB, where, "other", now=IAT + 1)
    assert may_push_again(HOST_JOB, where, "other", now=HOST_JOB.exp + 120)
    assert not may_push_again(HOST_JOB, where, "other", now=HOST_JOB.exp + 121)
    assert not may_push_again(replace(HOST_JOB, envelope=""), where, "other", now=IAT + 1)


@pytest.mark.parametrize("where", [LISTED, CLAIMED, Whereabouts(Place.FINISHED)])
def test_a_job_that_somebody_has_is_never_pushed_again(where: Whereabouts) -> None:
    assert not may_push_again(HOST_JOB, where, "mark", now=IAT + 1)
    assert not is_claim_unknown(LANE_JOB, where)


@pytest.mark.parametrize(
    ("broker", "pushed_at", "where", "mark", "pushes"),
    [
        ("mark", IAT, ABSENT, "mark", False),  # it was there: its list is no longer
        ("mark", IAT, NOWHERE, "mark", False),
        ("", None, ABSENT, "mark", True),  # nobody ever tried
        ("mark", None, ABSENT, "mark", True),  # tried, and nothing was lost since: it never came
        ("mark", None, ABSENT, "other", False),  # it may have come, and gone with the data
        ("mark", None, NOWHERE, "mark", False),
    ],
)
def test_a_lanes_job_is_pushed_again_only_when_it_never_was_before(
    broker: str, pushed_at: int | None, where: Whereabouts, mark: str, pushes: bool
) -> None:
    job = replace(LANE_JOB, broker=broker, pushed_at=pushed_at)
    assert may_push_again(job, where, mark, now=IAT + 1) is pushes
    assert is_claim_unknown(job, where) is (pushed_at is not None)


def test_a_job_that_was_never_accepted_expires_and_is_not_given_up() -> None:
    job = replace(LANE_JOB, pushed_at=None, exp=IAT + 7 * DAY)
    assert ending_of(job, ABSENT, [], now=IAT + 2 * DAY) is None
    assert ending_of(job, ABSENT, [], now=job.exp + 121) is ReceiptCode.EXPIRED


def test_pushing_again_becomes_rarer_and_a_clock_set_back_does_not_stop_it() -> None:
    waits = []
    for pushes in range(12):
        job = replace(HOST_JOB, pushes=pushes, tried_at=IAT)
        waits.append(next(s for s in range(1_000) if is_due(job, IAT + s)))
        assert is_due(job, IAT - 1_000)
    assert waits == [0, 5, 10, 20, 40, 80, 160, 300, 300, 300, 300, 300]
