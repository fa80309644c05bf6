"""The journal: one claim, one result, whatever comes when."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from contracts.clock import ManualClock
from contracts.errors import CouldNotCheck, EnvelopeRefused, Unavailable
from contracts.ids import new_job_id
from worker.journal.journal import Journal
from worker.journal.records import NewJob
from worker.journal.schema import MIGRATIONS, JobState, migrate

DAY = 24 * 3_600


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def journal(tmp_path: Path, clock: ManualClock) -> Journal:
    return open_journal(tmp_path, clock)


def open_journal(folder: Path, clock: ManualClock) -> Journal:
    return Journal(folder / "state" / "journal.sqlite3", clock, witness=folder / "witness")


def new_job(**changes: object) -> NewJob:
    values = {"jti": new_job_id(), "iss": "alice", "iat": 1_700_000_000, "exp": 1_700_003_600}
    return NewJob(**{**values, **changes})


def states(journal: Journal, job_id: str) -> list[JobState]:
    return [row.state for row in journal.history(job_id)]


def test_a_claim_is_given_once_and_then_answers_with_what_became_of_it(journal: Journal) -> None:
    job = new_job(facts={"agent": "codex"})
    assert journal.claim(job) is None
    earlier = journal.claim(job)
    assert earlier is not None
    assert (earlier.state, earlier.facts, earlier.result) == (
        JobState.CLAIMED,
        {"agent": "codex", "iat": "1700000000"},
        None,
    )
    journal.record(job.jti, JobState.STARTED, attempt=1)
    assert journal.finish(job.jti, b"{}", sealed="signed")
    again = journal.claim(job)
    assert again is not None
    assert (again.state, again.result, again.sealed, again.attempt) == (
        JobState.DONE,
        b"{}",
        "signed",
        1,
    )


def test_the_first_result_stays_and_nothing_is_added_to_an_ended_job(journal: Journal) -> None:
    job = new_job()
    journal.claim(job)
    assert journal.finish(job.jti, b"first")
    assert not journal.finish(job.jti, b"second")
    assert not journal.record(job.jti, JobState.STARTED, attempt=2)
    record = journal.find(job.jti)
    assert record is not None
    assert record.result == b"first"
    assert states(journal, job.jti) == [JobState.CLAIMED, JobState.DONE]


def test_transitions_are_rows_with_attempt_time_process_and_reason(
    journal: Journal, clock: ManualClock
) -> None:
    job = new_job()
    journal.claim(job)
    clock.advance(5)
    journal.record(job.jti, JobState.STARTED, attempt=1, why="w" * 2_000, worktree="/tree")
    row = journal.history(job.jti)[-1]
    assert (row.attempt, row.state, row.at, len(row.why)) == (1, "started", clock.wall(), 500)
    assert row.pid > 0
    record = journal.find(job.jti)
    assert record is not None
    assert record.worktree == "/tree"


def test_an_unknown_job_takes_no_transition(journal: Journal) -> None:
    assert not journal.record("a" * 20, JobState.STARTED)
    assert journal.find("a" * 20) is None


def test_results_of_senders_wait_until_they_are_published_and_local_ones_never_do(
    journal: Journal, clock: ManualClock
) -> None:
    jobs = [new_job(), new_job(), NewJob(jti=new_job_id())]
    for job in jobs:
        journal.claim(job)
        clock.advance(1)
        journal.finish(job.jti, b"{}", sealed="x")
    assert [record.jti for record in journal.unpublished()] == [jobs[0].jti, jobs[1].jti]
    journal.mark_published(jobs[0].jti)
    journal.mark_published(jobs[0].jti)
    assert [record.jti for record in journal.unpublished()] == [jobs[1].jti]
    assert states(journal, jobs[0].jti).count(JobState.PUBLISHED) == 1


def test_a_result_is_signed_once(journal: Journal) -> None:
    job = new_job()
    journal.claim(job)
    journal.finish(job.jti, b"{}")
    assert journal.keep_sealed(job.jti, "first") == "first"
    assert journal.keep_sealed(job.jti, "second") == "first"


def test_a_fresh_journal_accepts_what_was_issued_before_it(journal: Journal) -> None:
    assert journal.epoch() == 0
    assert journal.claim(new_job(iat=1)) is None


@pytest.mark.parametrize("how", ["lost", "restored from an older copy"])
def test_a_journal_that_forgot_claims_refuses_every_older_job(
    how: str, tmp_path: Path, clock: ManualClock
) -> None:
    journal = open_journal(tmp_path, clock)
    journal.claim(new_job())
    journal.close()
    path = tmp_path / "state" / "journal.sqlite3"
    copy = path.read_bytes()
    journal = open_journal(tmp_path, clock)
    replayed = new_job()
    journal.claim(replayed)
    journal.close()
    for file in path.parent.iterdir():
        file.unlink()
    if how != "lost":
        path.write_bytes(copy)

    clock.advance(10)
    journal = open_journal(tmp_path, clock)
    assert journal.epoch() == clock.wall()
    with pytest.raises(EnvelopeRefused) as caught:
        journal.claim(replayed)
    assert caught.value.code == "before_epoch"
    assert journal.claim(new_job(iat=int(clock.wall()) + 1)) is None
    journal.close()
    assert open_journal(tmp_path, clock).epoch() == clock.wall(), "reopening changes nothing"


def test_a_local_run_has_no_issue_time_and_is_never_too_old(
    tmp_path: Path, clock: ManualClock
) -> None:
    (tmp_path / "witness").write_bytes(b"...")
    journal = open_journal(tmp_path, clock)
    assert journal.epoch() > 0
    assert journal.claim(NewJob(jti=new_job_id())) is None


def test_a_witness_that_cannot_be_written_does_not_lose_the_claim(
    tmp_path: Path, clock: ManualClock
) -> None:
    (tmp_path / "witness").mkdir()
    journal = Journal(tmp_path / "journal.sqlite3", clock, witness=tmp_path / "witness" / "a" / "b")
    (tmp_path / "witness" / "a").write_text("a file in the way")
    assert journal.claim(new_job()) is None


def test_old_delivered_jobs_are_forgotten_and_open_ones_are_not(
    journal: Journal, clock: ManualClock
) -> None:
    delivered, open_one, declined = new_job(), new_job(), new_job()
    for job in (delivered, open_one, declined):
        journal.claim(job)
    journal.finish(delivered.jti, b"{}")
    journal.mark_published(delivered.jti)
    journal.record(declined.jti, JobState.REFUSED, why="not here")
    assert journal.prune() == 0
    clock.advance(8 * DAY)
    assert journal.prune() == 2
    assert journal.find(delivered.jti) is None
    assert journal.find(declined.jti) is None
    assert journal.find(open_one.jti) is not None
    assert journal.history(delivered.jti) == []


def test_what_was_forgotten_while_the_clock_was_ahead_is_not_taken_again(
    journal: Journal, clock: ManualClock
) -> None:
    now = int(clock.wall())
    job = new_job(iat=now, exp=now + DAY)
    assert journal.claim(job) is None
    journal.finish(job.jti, b"{}", sealed="x")
    journal.mark_published(job.jti)
    clock.jump(365 * DAY)
    assert journal.prune() == 1
    clock.jump(-365 * DAY)
    with pytest.raises(EnvelopeRefused) as refused:
        journal.claim(job)
    assert refused.value.code == "before_epoch"
    assert journal.claim(new_job(iat=now + 1, exp=now + DAY)) is None, "the next one is taken"


def test_jobs_of_a_living_process_are_no_orphans(journal: Journal) -> None:
    journal.claim(new_job())
    assert journal.orphans() == []


def test_a_lease_is_held_by_the_living_and_renewed_by_its_owner(
    journal: Journal, clock: ManualClock
) -> None:
    assert journal.leases.acquire("listener", "A", seconds=10) is None
    assert journal.leases.acquire("listener", "A", seconds=10) is None
    assert journal.leases.acquire("listener", "B", seconds=10) is None
    journal.leases.release("listener", "A")
    journal.leases.release("listener", "never held")


@pytest.mark.parametrize(
    ("owner", "waits"),
    [("another-machine:1:1.0", True), ("HERE:1:1.0", False), ("HERE:PARENT", True)],
)
def test_a_lease_of_another_owner_ends_with_its_process_or_its_time(
    owner: str, waits: bool, tmp_path: Path, journal: Journal, clock: ManualClock
) -> None:
    import os
    import socket

    import psutil

    parent = psutil.Process(os.getppid())
    owner = owner.replace("PARENT", f"{parent.pid}:{parent.create_time():.2f}")
    owner = owner.replace("HERE", socket.gethostname())
    with sqlite3.connect(tmp_path / "state" / "journal.sqlite3") as other:
        row = ("listener", "A", owner, clock.wall() + 10)
        other.execute("INSERT INTO leases VALUES (?, ?, ?, ?)", row)
    assert journal.leases.acquire("listener", "A", seconds=10) == (owner if waits else None)
    if "another-machine" in owner:
        clock.advance(11)
        assert journal.leases.acquire("listener", "A", seconds=10) is None


def test_the_file_is_its_owners_alone(tmp_path: Path, journal: Journal) -> None:
    folder = tmp_path / "state"
    assert folder.stat().st_mode & 0o777 == 0o700
    journal.claim(new_job())
    for file in folder.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600, file.name
    journal.close()
    (folder / "journal.sqlite3").chmod(0o644)
    Journal(folder / "journal.sqlite3", ManualClock()).close()
    assert (folder / "journal.sqlite3").stat().st_mode & 0o777 == 0o600


def test_a_newer_schema_is_refused_and_an_older_one_is_brought_up(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    Journal(path, ManualClock()).close()
    connection = sqlite3.connect(path, isolation_level=None)
    assert not migrate(connection, (*MIGRATIONS, "CREATE TABLE later (x INTEGER)"))
    assert connection.execute("SELECT count(*) FROM later").fetchone() == (0,)
    connection.close()
    with pytest.raises(CouldNotCheck, match=f"schema {len(MIGRATIONS) + 1}"):
        Journal(path, ManualClock())


def test_a_step_that_fails_leaves_the_older_schema_whole(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "x", isolation_level=None)
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, ("CREATE TABLE one (x INTEGER); CREATE NONSENSE",))
    assert connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
    assert migrate(connection, ("CREATE TABLE one (x INTEGER)",))
    connection.close()


def test_a_damaged_file_is_not_read_as_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    path.write_bytes(b"this is no database at all, " * 100)
    with pytest.raises(CouldNotCheck, match="damaged"):
        Journal(path, ManualClock())


def test_a_folder_that_cannot_be_made_is_said_with_its_remedy(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file in the way")
    with pytest.raises(Unavailable, match=r"cannot make the folder|cannot be used"):
        Journal(tmp_path / "state" / "journal.sqlite3", ManualClock())
