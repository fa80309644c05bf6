"""What is asked of a journal again and again costs no more in a large one: an index answers it.

Counted, not timed: the plan of every statement that is run names an index and scans no table, and
how many rows are read at once is bounded.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contracts.clock import ManualClock
from contracts.ids import new_job_id
from worker.housekeeping import Housekeeping
from worker.journal import retention
from worker.journal.cancels import Cancel
from worker.journal.journal import Journal
from worker.journal.records import HTTP_DOOR, NewJob
from worker.journal.schema import JobState
from worker.runs.run_folders import RunFolders

DAY = 24 * 3_600
JOB = "a" * 20


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.sqlite3"


@pytest.fixture
def journal(path: Path, clock: ManualClock) -> Iterator[Journal]:
    opened = Journal(path, clock)
    yield opened
    opened.close()


def keep_cancel(journal: Journal) -> object:
    return journal.cancels.keep(Cancel(JOB, "alice", "0" * 64, 1), is_known=False)


@pytest.mark.parametrize(
    "ask",
    [
        lambda journal: journal.claim(NewJob(jti=JOB, iss="alice", iat=1, exp=2)),
        lambda journal: journal.record(JOB, JobState.STARTED, worktree="/tree"),
        lambda journal: journal.finish(JOB, b"{}"),
        lambda journal: journal.mark_published(JOB),
        lambda journal: journal.find(JOB),
        lambda journal: journal.history(JOB),
        lambda journal: journal.processes.of(JOB),
        lambda journal: journal.processes.end("marker"),
        lambda journal: journal.recent(50),
        lambda journal: list(journal.unpublished()),
        lambda journal: journal.orphans("HOSTA"),
        lambda journal: journal.prune(),
        lambda journal: journal.trees.standing(),
        lambda journal: journal.cancels.concerned(journal.owner),
        lambda journal: journal.cancels.of_job(JOB),
        keep_cancel,
        lambda journal: journal.asked.use("alice", "nonce", until=2_000_000_000),
    ],
)
def test_nothing_that_is_asked_of_a_journal_reads_a_whole_table(
    ask: Callable[[Journal], object], journal: Journal, path: Path
) -> None:
    statements: list[str] = []
    with journal._file.reading() as database:  # the very statements, with their values
        database.set_trace_callback(statements.append)
    ask(journal)
    with journal._file.reading() as database:
        database.set_trace_callback(None)
    asked = [text for text in statements if text.split()[0] in ("SELECT", "UPDATE", "DELETE")]
    with sqlite3.connect(path) as reader:
        for statement in asked:
            for row in reader.execute(f"EXPLAIN QUERY PLAN {statement}"):
                assert not is_scan(str(row[3]), statement), f"{row[3]}\n{statement}"
    reader.close()
    assert asked


def is_scan(step: str, statement: str) -> bool:
    """Say whether a step of a plan reads every row of a table. Not over a partial index, which has
    the rows that are wanted and no others, nor in an index's order up to a limit."""
    if not step.startswith("SCAN") or "CONSTANT ROW" in step:
        return False
    if "INDEX jobs_by_claim" in step and statement.rstrip().endswith("LIMIT 50"):
        return False
    return not any(name in step for name in ("INDEX jobs_open", "INDEX trees_standing"))


def end_job(journal: Journal, job: NewJob) -> None:
    journal.claim(job)
    journal.finish(job.jti, b"{}", sealed="x")


def test_results_that_wait_for_a_broker_are_read_a_few_at_a_time_and_all_of_them_once(
    journal: Journal, clock: ManualClock
) -> None:
    jobs = [NewJob(jti=new_job_id(), iss="alice", iat=1, exp=2) for _ in range(120)]
    for number, job in enumerate(jobs):
        end_job(journal, job)
        if number % 7 == 0:
            clock.advance(1)  # some have one time in common
    waiting = journal.unpublished()
    first = [next(waiting).jti for _ in range(3)]
    assert len(first) == 3
    statements: list[str] = []
    with journal._file.reading() as database:
        database.set_trace_callback(statements.append)
    rest = [record.jti for record in waiting]
    assert sorted([*first, *rest]) == sorted(job.jti for job in jobs)
    assert len(statements) == 2, "two more pages of fifty"


def test_results_that_can_never_be_sent_do_not_keep_the_later_ones_from_being_read(
    journal: Journal, clock: ManualClock
) -> None:
    jobs = [NewJob(jti=new_job_id(), iss="alice", iat=1, exp=2) for _ in range(60)]
    for job in jobs:
        end_job(journal, job)
        clock.advance(1)
    for _ in range(2):
        assert [record.jti for record in journal.unpublished()] == [job.jti for job in jobs]


def test_jobs_are_forgotten_some_at_a_time_until_none_is_left(
    monkeypatch: pytest.MonkeyPatch, journal: Journal, path: Path, clock: ManualClock
) -> None:
    monkeypatch.setattr(retention, "FORGOTTEN_AT_ONCE", 2)
    now = int(clock.wall())
    local = [NewJob(jti=new_job_id()) for _ in range(3)]
    over_http = [
        NewJob(jti=new_job_id(), iss="alice", iat=now, exp=now + 9, facts={"door": HTTP_DOOR})
        for _ in range(3)
    ]
    queued = [NewJob(jti=new_job_id(), iss="alice", iat=now, exp=now + 9) for _ in range(5)]
    for job in (*local, *over_http, *queued):
        end_job(journal, job)
    for job in queued:
        journal.mark_published(job.jti)
    owed, running = (NewJob(jti=new_job_id(), iss="bob", iat=now, exp=now + 9) for _ in range(2))
    end_job(journal, owed)
    journal.claim(running)
    declined = NewJob(jti=new_job_id(), iss="alice", iat=now, exp=now + 9)
    journal.claim(declined)
    journal.record(declined.jti, JobState.REFUSED)
    clock.advance(8 * DAY)
    fresh = NewJob(jti=new_job_id())
    end_job(journal, fresh)
    assert journal.prune() == 12
    assert {record.jti for record in journal.recent(50)} == {owed.jti, running.jti, fresh.jti}
    with sqlite3.connect(path) as reader:
        kept = {row[0] for row in reader.execute("SELECT DISTINCT job FROM transitions")}
    reader.close()
    assert kept == {owed.jti, running.jti, fresh.jti}
    assert journal.epoch() == now + 1, "what was issued then is not taken again"


def test_the_folders_of_jobs_are_tidied_with_few_questions_and_no_result_is_read(
    journal: Journal, tmp_path: Path, clock: ManualClock
) -> None:
    jobs = [NewJob(jti=new_job_id(), iss="alice", iat=1, exp=2) for _ in range(250)]
    for job in jobs:
        (tmp_path / "runs" / job.jti).mkdir(parents=True)
    end_job(journal, jobs[0])
    journal.claim(jobs[1])
    for job in jobs[:3]:
        (tmp_path / "runs" / job.jti / "prompt").write_text("secret")
    statements: list[str] = []
    with journal._file.reading() as database:
        database.set_trace_callback(statements.append)
    assert RunFolders(tmp_path / "runs", journal, clock).tidy() == 0
    assert len(statements) == 2, "250 folders, two questions"
    assert not any("jobs.*" in statement for statement in statements)
    left = [job.jti for job in jobs[:3] if (tmp_path / "runs" / job.jti / "prompt").exists()]
    assert left == [jobs[1].jti]


def test_a_tidying_ends_with_its_listener(
    journal: Journal, tmp_path: Path, clock: ManualClock
) -> None:
    job = NewJob(jti=new_job_id())
    end_job(journal, job)
    (tmp_path / "runs" / job.jti).mkdir(parents=True)
    (tmp_path / "runs" / job.jti / "prompt").write_text("secret")
    clock.advance(8 * DAY)
    folders = RunFolders(tmp_path / "runs", journal, clock)
    said: list[str] = []
    stop = threading.Event()
    stop.set()
    housekeeping = Housekeeping(journal, folders, clock, lambda what, **_: said.append(what))
    housekeeping.tidy(stop)
    assert (said, journal.find(job.jti) is not None) == ([], True)
    housekeeping.tidy(threading.Event())
    assert (said, journal.find(job.jti)) == (["tidied"], None)
