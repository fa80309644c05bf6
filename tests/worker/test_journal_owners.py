"""Only a job's owner writes to it: what was taken over is closed to the one who had it before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from contracts.clock import ManualClock
from contracts.errors import Refused, Unavailable
from contracts.ids import new_job_id
from worker.journal.host_lease import LEASE_KIND, LEASE_S, HostLease
from worker.journal.journal import Journal
from worker.journal.owners import this_place, this_process
from worker.journal.records import JobRecord, NewJob
from worker.journal.schema import JobState
from worker.reserve import Reserve

DEAD = f"{this_place()}:1:1.00"
UNSEEN = f"{this_place()._replace(space='9')}:1:1.00"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class Desk:
    """Journals of one file in several owners' names."""

    def __init__(self, path: Path, clock: ManualClock, stack: ExitStack) -> None:
        self._path, self._clock, self._stack = path, clock, stack
        self.said: list[str] = []

    def journal(self, owner: str = "") -> Journal:
        journal = Journal(self._path, self._clock, owner=owner)
        self._stack.callback(journal.close)
        return journal

    def lease(self, journal: Journal) -> HostLease:
        return HostLease(
            journal,
            "A",
            Reserve(self._path.parent),
            self._clock,
            lambda what, **_: self.said.append(what),
        )


@pytest.fixture
def desk(tmp_path: Path, clock: ManualClock) -> Iterator[Desk]:
    with ExitStack() as stack:
        yield Desk(tmp_path / "journal.sqlite3", clock, stack)


def started(journal: Journal, **facts: str) -> JobRecord:
    job = NewJob(jti=new_job_id(), iss="alice", iat=1, facts=facts)
    assert journal.claim(job) is None
    assert journal.record(job.jti, JobState.STARTED, attempt=1)
    record = journal.find(job.jti)
    assert record is not None
    return record


def test_a_run_writes_in_the_name_of_the_listener_that_claimed_its_job(desk: Desk) -> None:
    listener = desk.journal(DEAD)
    record = started(listener)
    assert desk.journal(listener.owner).record(record.jti, JobState.AGENT_DONE, attempt=1)
    assert not desk.journal("somebody:1:1.0").record(record.jti, JobState.AGENT_DONE, attempt=1)


def test_what_was_taken_over_takes_nothing_more_from_its_earlier_owner(desk: Desk) -> None:
    earlier, later = desk.journal(DEAD), desk.journal()
    record = started(earlier)
    assert later.adopt(record)
    assert not later.adopt(record), "once"
    assert not earlier.record(record.jti, JobState.VALIDATED, attempt=1)
    assert not earlier.finish(record.jti, b"late")
    assert later.finish(record.jti, b"lost")
    assert [row.state for row in later.history(record.jti)] == ["claimed", "started", "done"]
    assert next(later.unpublished()).result == b"lost"


def test_an_ended_job_is_not_taken_over(desk: Desk) -> None:
    earlier = desk.journal(DEAD)
    record = started(earlier)
    assert earlier.finish(record.jti, b"done")
    assert not desk.journal().adopt(record)
    assert desk.journal().orphans() == []


def test_the_jobs_of_one_that_cannot_be_seen_are_orphans_for_its_own_host_alone(desk: Desk) -> None:
    record = started(desk.journal(UNSEEN), host="A")
    journal = desk.journal()
    assert journal.orphans() == []
    assert journal.orphans("B") == []
    assert [orphan.jti for orphan in journal.orphans("A")] == [record.jti]


def test_a_listener_without_its_lease_claims_and_writes_nothing(desk: Desk) -> None:
    listener = desk.journal(this_process())
    desk.lease(listener).take()
    record = started(listener)
    listener.leases.release(LEASE_KIND, "A")
    usurper = desk.journal(UNSEEN)
    with usurper._file.writing() as database:
        row = (LEASE_KIND, "A", UNSEEN, 2e9)
        database.execute("INSERT INTO leases VALUES (?, ?, ?, ?)", row)
    assert not listener.record(record.jti, JobState.AGENT_DONE, attempt=1)
    assert not listener.finish(record.jti, b"{}")
    assert not listener.adopt(started(desk.journal(DEAD)))
    with pytest.raises(Unavailable, match="taken over"):
        listener.claim(NewJob(jti=new_job_id(), iss="alice", iat=1))


def hold_lease(desk: Desk, owner: str, until: float) -> None:
    with desk.journal()._file.writing() as database:
        row = (LEASE_KIND, "A", owner, until)
        database.execute("INSERT INTO leases VALUES (?, ?, ?, ?)", row)


def test_a_lease_that_nobody_renews_is_waited_for_and_then_taken(
    desk: Desk, clock: ManualClock
) -> None:
    hold_lease(desk, UNSEEN, clock.wall() + LEASE_S)
    began = clock.monotonic()
    desk.lease(desk.journal()).take()
    assert desk.said == ["waiting_for_lease"]
    assert LEASE_S <= clock.monotonic() - began <= LEASE_S + 2


def test_a_lease_that_stays_held_elsewhere_is_refused_in_the_end(
    desk: Desk, clock: ManualClock
) -> None:
    hold_lease(desk, UNSEEN, clock.wall() + 10 * LEASE_S)
    with pytest.raises(Refused) as caught:
        desk.lease(desk.journal()).take()
    assert caught.value.code == "already_listening"
    assert "process 1 on" in str(caught.value)


def test_the_loss_of_a_lease_is_said_once_and_acted_upon_once(
    desk: Desk, clock: ManualClock
) -> None:
    lease = desk.lease(desk.journal())
    lease.take()
    lost: list[str] = []
    lease.renew(lambda: lost.append("x"))
    with desk.journal()._file.writing() as database:
        row = (UNSEEN, clock.wall() + LEASE_S)
        database.execute("UPDATE leases SET owner = ?, until = ?", row)
    for _ in range(3):
        lease.renew(lambda: lost.append("x"))
    assert (desk.said, lost) == (["lease_lost"], ["x"])


def test_two_holders_of_one_process_are_told_apart(desk: Desk) -> None:
    leases = desk.journal().leases
    assert leases.acquire("agent", "codex", seconds=9, by="one") is None
    holder = leases.acquire("agent", "codex", seconds=9, by="two")
    assert holder is not None and holder.endswith("#one")
    leases.release("agent", "codex", by="two")
    assert leases.acquire("agent", "codex", seconds=9) is not None
    leases.release("agent", "codex", by="one")
    assert leases.acquire("agent", "codex", seconds=9, by="two") is None
