"""A message that came before starts nothing, whatever somebody does to Redis, to a copy of our
journal, or to this machine's clock.

The control is the same message: its signature holds and its time is right, so that nothing but the
host's own memory stands between it and a second start.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contracts import naming
from contracts.clock import SystemClock
from dispatch.keyring import HostKeyring
from tests.support.broker import Broker
from tests.support.clocked_hosts import DAY_S, ClockedHost, clocked_host
from tests.support.fleet import wait_until
from tests.support.hosts import LANE, Host
from tests.support.own_client import forget_tree, leave_cancel, sign_cancel
from worker.verification import ExpiredJob, verify_job


@pytest.fixture
def host(broker: Broker, tmp_path: Path) -> Iterator[ClockedHost]:
    with clocked_host(tmp_path, broker, key_age_s=20 * DAY_S) as listening:
        yield listening
        listening.release()


def is_accepted_by_its_signature(host: Host, job: dict[str, Any], text: str) -> bool:
    """Say whether a host without a memory would take the message now."""
    keys = HostKeyring.load(host.fleet_home / "keys", host.name, SystemClock())
    now = time.time()
    job_id = job["jti"]
    found = verify_job(text, job_id=job_id, keys=keys, host=host.name, lanes=(LANE,), now=now)
    return not isinstance(found, ExpiredJob)


def empty(host: Host) -> None:
    with host.broker.client() as connection:
        connection.flushall()


def send_again(host: Host, job: dict[str, Any], text: str) -> None:
    """Push a message anew, as one who may write everything but sign nothing."""
    with host.broker.client() as connection:
        connection.delete(naming.job_key(job["jti"]), naming.result_key(job["jti"]))
        connection.delete(naming.claim_key(job["jti"]))
    forget_tree(host.repo, job["jti"])
    host.push(job, envelope=text)


def run_once(host: Host, **changes: Any) -> tuple[dict[str, Any], str]:
    """Let a job run and be delivered; return it and its message."""
    before = host.starts
    job = host.job(**changes)
    text = host.sender.sign(job)
    host.result(host.push(job, envelope=text))
    host.published(job["jti"])
    assert host.starts == before + 1
    return job, text


def begun(host: Host, job: dict[str, Any]) -> int:
    """Return how often the host began a job: what an earlier run left there may stop the agent."""
    return host.log.count(f" claimed job={job['jti']}")


def buried(host: Host, reason: str) -> int:
    return sum(letter["reason"] == reason for letter in host.dead_letters())


def test_deleted_claims_an_emptied_broker_and_a_jumping_clock_start_nothing_twice(
    host: ClockedHost,
) -> None:
    job, text = run_once(host)
    assert is_accepted_by_its_signature(host, job, text), "the control"
    said = f"duplicate job={job['jti']}"
    for number, jump_s in enumerate((0, 0, 3_000, -100)):
        if number == 1:
            empty(host)
        host.move_clock(jump_s)
        before = host.log.count(said)
        send_again(host, job, text)
        wait_until(lambda n=before: host.log.count(said) > n, f"copy {number} is known", 60)
    host.move_clock(0)
    host.run_honest_job()
    assert host.starts == 2


def test_what_a_forgotten_job_and_a_forgotten_cancel_were_stays_refused_by_a_clock_put_right(
    host: ClockedHost,
) -> None:
    """Nine days forth the journal forgets; back again, the messages are still within their time."""
    job, text = run_once(host)
    taken_back = host.job()
    order = sign_cancel(host.sender, taken_back)
    leave_cancel(host.broker, taken_back["jti"], order, [host.name])
    wait_until(lambda: f"cancel_taken job={taken_back['jti']}" in host.log, "it is kept")
    assert host.stop() == 0
    host.move_clock(9 * DAY_S)
    host.start()
    wait_until(lambda: " tidied " in host.log, "the journal forgets")
    assert host.journal_history(job["jti"]) == [], "the control: nothing is known of it"
    host.move_clock(0)
    empty(host)
    for number, (again, message) in enumerate(
        [(job, text), (taken_back, host.sender.sign(taken_back))], start=1
    ):
        assert is_accepted_by_its_signature(host, again, message)
        send_again(host, again, message)
        wait_until(lambda n=number: buried(host, "before_epoch") == n, "it is refused", 60)
    assert host.starts == 1
    later = host.job()
    later["iat"] += 5
    assert host.result(host.push(later)).status == "completed"


def test_a_journal_from_a_backup_takes_nothing_that_was_issued_before(host: ClockedHost) -> None:
    """First the control: where the witness is put back, too, a message runs twice. Then the journal
    alone, and at last with a clock that stands an hour back when the loss is noticed."""
    state, witness = host.journal_file.parent, host.fleet_home / "journal.witness"
    backup = host.home / "backup"

    def restore(*, with_witness: bool) -> None:
        for file in state.glob("journal.sqlite3*"):
            file.unlink()
        for file in backup.glob("journal.sqlite3*"):
            shutil.copy2(file, state / file.name)
        if with_witness:
            shutil.copy2(backup / witness.name, witness)

    run_once(host)
    assert host.stop() == 0
    backup.mkdir()
    for file in [*state.glob("journal.sqlite3*"), witness]:
        shutil.copy2(file, backup / file.name)

    host.start()
    job, text = run_once(host)
    assert host.stop() == 0
    restore(with_witness=True)
    host.start()
    send_again(host, job, text)
    wait_until(lambda: begun(host, job) == 2, "the control: whoever has both begins it twice", 90)
    wait_until(lambda: host.stored(job["jti"]) is not None, "it ends", 90)

    job, text = run_once(host)
    assert host.stop() == 0
    restore(with_witness=False)
    host.move_clock(-3_600)
    host.start()
    host.move_clock(0)
    empty(host)
    assert is_accepted_by_its_signature(host, job, text)
    send_again(host, job, text)
    wait_until(lambda: buried(host, "before_epoch") == 1, "it is refused", 60)
    assert begun(host, job) == 1
    later = host.job()
    later["iat"] += 5
    assert host.result(host.push(later)).status == "completed"
