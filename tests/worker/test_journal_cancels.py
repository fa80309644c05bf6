"""What the journal keeps of orders and questions, and what it counts against its witness."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from contracts import limits
from contracts.clock import ManualClock
from contracts.errors import EnvelopeRefused
from worker.journal import cancels
from worker.journal.cancels import KEPT_S, Cancel
from worker.journal.journal import Journal
from worker.journal.records import LOCAL_SENDER, NewJob
from worker.journal.schema import JobState

JOB, SHA = "a" * 20, "0" * 64


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def open_journal(folder: Path, clock: ManualClock) -> Journal:
    return Journal(folder / "state" / "journal.sqlite3", clock, witness=folder / "witness")


@pytest.fixture
def journal(tmp_path: Path, clock: ManualClock) -> Iterator[Journal]:
    opened = open_journal(tmp_path, clock)
    yield opened
    opened.close()


def order(clock: ManualClock, job: str = JOB) -> Cancel:
    return Cancel(job, "alice", SHA, int(clock.wall()), "why not")


def job_of(order: Cancel, **changes: object) -> NewJob:
    new = NewJob(jti=order.job, iss=order.iss, job_sha256=order.job_sha256, iat=order.iat - 1)
    return replace(new, **changes)  # type: ignore[arg-type]


def test_a_cancel_holds_for_exactly_its_senders_job_and_is_news_once(
    journal: Journal, clock: ManualClock
) -> None:
    mine = order(clock)
    assert journal.cancels.keep(mine, is_known=False)
    assert not journal.cancels.keep(replace(mine, why="again"), is_known=True)
    assert journal.cancels.find(JOB, iss="alice", job_sha256=SHA) == mine
    assert journal.cancels.find(JOB, iss="bob", job_sha256=SHA) is None
    assert journal.cancels.of_job(JOB) is None, "its job has not come"
    journal.claim(job_of(mine, job_sha256="1" * 64))
    assert journal.cancels.of_job(JOB) is None, "other bytes"
    other = order(clock, "b" * 20)
    journal.claim(job_of(other))
    journal.cancels.keep(other, is_known=True)
    assert journal.cancels.of_job(other.job) == other


def test_a_sender_takes_back_so_many_jobs_that_never_came_and_any_that_did(
    journal: Journal, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancels, "UNKNOWN_MAX", 2)
    for letter in "bc":
        journal.cancels.keep(order(clock, letter * 20), is_known=False)
    with pytest.raises(EnvelopeRefused) as refused:
        journal.cancels.keep(order(clock, "d" * 20), is_known=False)
    assert refused.value.code == "too_many"
    assert journal.cancels.keep(order(clock, "d" * 20), is_known=True)
    assert journal.cancels.keep(replace(order(clock), iss="bob"), is_known=False)


def test_orders_are_looked_for_while_a_job_is_in_our_hands(
    journal: Journal, clock: ManualClock
) -> None:
    for letter in "abcd":
        journal.claim(job_of(order(clock, letter * 20)))
    journal.record("b" * 20, JobState.REFUSED)
    journal.finish("c" * 20, b"{}")
    assert sorted(journal.cancels.concerned(journal.owner)) == ["a" * 20, "d" * 20]
    assert journal.cancels.concerned("somebody else") == []


def test_a_forgotten_cancel_leaves_a_moment_before_which_nothing_is_taken(
    journal: Journal, clock: ManualClock
) -> None:
    mine = order(clock)
    journal.cancels.keep(mine, is_known=False)
    clock.jump(KEPT_S)
    journal.prune()
    assert journal.epoch() == 0
    clock.jump(2)
    journal.prune()
    assert journal.cancels.find(JOB, iss="alice", job_sha256=SHA) is None
    clock.jump(-KEPT_S)
    with pytest.raises(EnvelopeRefused) as refused:
        journal.claim(job_of(mine))
    assert refused.value.code == "before_epoch"
    assert journal.claim(job_of(mine, jti="b" * 20, iat=mine.iat + 1)) is None


def test_a_question_is_new_once_and_never_again_when_the_clock_goes_back(
    journal: Journal, clock: ManualClock
) -> None:
    until = int(clock.wall()) + limits.ASK_TTL_MAX_S
    assert journal.asked.use("alice", "n" * 20, until=until)
    assert not journal.asked.use("alice", "n" * 20, until=until)
    assert journal.asked.use("bob", "n" * 20, until=until)
    clock.jump(limits.ASK_TTL_MAX_S + 1)
    assert journal.asked.use("alice", "m" * 20, until=until + 600)
    clock.jump(-limits.ASK_TTL_MAX_S - 1)
    assert not journal.asked.use("alice", "n" * 20, until=until), "it was forgotten meanwhile"
    assert journal.asked.use("alice", "o" * 20, until=until + 1)


# --- the witness ---------------------------------------------------------------------------------
def lose(folder: Path) -> None:
    for file in (folder / "state").glob("journal.sqlite3*"):
        file.unlink()


def test_the_epoch_of_a_lost_journal_is_after_the_newest_job_whatever_the_clock_says(
    tmp_path: Path, clock: ManualClock
) -> None:
    journal = open_journal(tmp_path, clock)
    ahead = int(clock.wall()) + 100  # its sender's clock, within the skew
    journal.claim(NewJob(jti=JOB, iss="alice", iat=ahead))
    journal.claim(NewJob(jti="b" * 20, iss="alice", iat=ahead - 50))
    journal.close()
    lose(tmp_path)
    clock.jump(-3_600)
    journal = open_journal(tmp_path, clock)
    assert journal.epoch() == ahead + 1
    journal.close()


def test_a_cancel_counts_against_the_witness_as_a_claim_does(
    tmp_path: Path, clock: ManualClock
) -> None:
    journal = open_journal(tmp_path, clock)
    mine = order(clock)
    journal.cancels.keep(mine, is_known=False)
    journal.close()
    lose(tmp_path)
    journal = open_journal(tmp_path, clock)
    with pytest.raises(EnvelopeRefused):
        journal.claim(job_of(mine))
    journal.close()


def test_runs_by_hand_do_not_hide_that_an_older_copy_came_back(
    tmp_path: Path, clock: ManualClock
) -> None:
    """They have no witness: counted all the same, they would make up for what a copy lacks."""
    path = tmp_path / "state" / "journal.sqlite3"
    by_hand = Journal(path, clock)
    for letter in "abc":
        by_hand.claim(NewJob(jti=letter * 20, iss=LOCAL_SENDER))
    by_hand.close()
    backup = path.read_bytes()
    journal = open_journal(tmp_path, clock)
    journal.claim(NewJob(jti="d" * 20, iss="alice", iat=int(clock.wall())))
    journal.close()
    lose(tmp_path)
    path.write_bytes(backup)
    journal = open_journal(tmp_path, clock)
    assert journal.epoch() > clock.wall()
    journal.close()


def test_who_holds_the_lease_makes_up_for_what_the_witness_missed(
    tmp_path: Path, clock: ManualClock
) -> None:
    journal = open_journal(tmp_path, clock)
    for letter in "ab":
        journal.claim(NewJob(jti=letter * 20, iss="alice", iat=int(clock.wall())))
    witness = tmp_path / "witness"
    os.truncate(witness, 1)
    journal.leases.acquire("listener", "H", seconds=30)
    journal.require_lease("listener", "H")
    assert witness.stat().st_size == 2
    journal.close()
    journal = open_journal(tmp_path, clock)
    assert journal.epoch() == 0
    journal.close()
