"""The journal under faults: many writers, a kill inside a transaction, a disk that says no."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from contracts.clock import SystemClock
from contracts.ids import new_job_id
from tests.support.fleet import wait_until
from tests.support.hosts import Host
from worker.journal.journal import Journal
from worker.journal.records import NewJob
from worker.journal.schema import JobState

PREAMBLE = """
import sys
from contracts.clock import SystemClock
from contracts.errors import FleetError
from worker.journal.journal import Journal
from worker.journal.records import NewJob
from worker.journal.schema import JobState
folder, *words = sys.argv[1:]
open_it = lambda: Journal(folder + "/journal.sqlite3", SystemClock(), witness=folder + "/witness")
"""
CLAIM_ALL = """
journal = open_it()
won = 0
for job_id in words:
    if journal.claim(NewJob(jti=job_id, iss="alice", iat=1)) is None:
        won += 1
        journal.record(job_id, JobState.STARTED, attempt=1)
        assert journal.finish(job_id, b"{}")
print(won)
"""
HANG_IN_TRANSACTION = """
journal = open_it()
job_id, = words
with journal._file.writing() as database:
    database.execute("DELETE FROM transitions")
    database.execute("DELETE FROM jobs")
    print("inside", flush=True)
    sys.stdin.read()
"""
CLAIM_AND_HANG = """
journal = open_it()
job_id, = words
assert journal.claim(NewJob(jti=job_id, iss="alice", iat=1)) is None
print("claimed", flush=True)
sys.stdin.read()
"""
FULL_DISK = """
import resource, signal
journal = open_it()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    for job_id in words:
        journal.claim(NewJob(jti=job_id, iss="alice", iat=1, facts={"repo": "x" * 4000}))
except FleetError as error:
    print(error.kind, error.remedy)
"""


def start(folder: Path, program: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + program, str(folder), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
    )


def open_journal(folder: Path) -> Journal:
    return Journal(folder / "journal.sqlite3", SystemClock(), witness=folder / "witness")


def test_of_many_processes_exactly_one_gets_each_claim(tmp_path: Path) -> None:
    job_ids = [new_job_id() for _ in range(25)]
    writers = [start(tmp_path, CLAIM_ALL, *job_ids) for _ in range(6)]
    won = [int(writer.communicate(timeout=120)[0]) for writer in writers]
    assert sum(won) == len(job_ids)
    journal = open_journal(tmp_path)
    for job_id in job_ids:
        states = [row.state for row in journal.history(job_id)]
        assert states == [JobState.CLAIMED, JobState.STARTED, JobState.DONE]
    assert journal.epoch() == 0, "racing for the witness loses no claim"
    journal.close()


def test_a_kill_inside_a_transaction_leaves_all_of_the_journal_as_it_was(tmp_path: Path) -> None:
    job_id = new_job_id()
    journal = open_journal(tmp_path)
    journal.claim(NewJob(jti=job_id, iss="alice", iat=1))
    writer = start(tmp_path, HANG_IN_TRANSACTION, job_id)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "inside\n"
    assert journal.find(job_id) is not None, "readers do not wait for a writer"
    writer.kill()
    writer.communicate(timeout=30)
    assert journal.record(job_id, JobState.STARTED, attempt=1), "nor does its death lock them out"
    assert [row.state for row in journal.history(job_id)] == [JobState.CLAIMED, JobState.STARTED]
    journal.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_claim_whose_process_died_is_an_orphan_and_stays_claimed(
    how: signal.Signals, tmp_path: Path
) -> None:
    job_id = new_job_id()
    writer = start(tmp_path, CLAIM_AND_HANG, job_id)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "claimed\n"
    journal = open_journal(tmp_path)
    assert journal.orphans() == []
    writer.send_signal(how)
    writer.communicate(timeout=30)
    wait_until(lambda: [job.jti for job in journal.orphans()] == [job_id], "it is an orphan")
    assert journal.claim(NewJob(jti=job_id, iss="alice", iat=1)) is not None
    journal.close()


def test_a_disk_that_takes_no_more_is_an_error_with_a_remedy_and_loses_nothing(
    tmp_path: Path,
) -> None:
    open_journal(tmp_path).close()
    writer = start(tmp_path, FULL_DISK, *(new_job_id() for _ in range(100)))
    printed, _ = writer.communicate(timeout=60)
    assert printed.startswith("unavailable ")
    assert "disk" in printed
    journal = open_journal(tmp_path)
    assert journal.claim(NewJob(jti=new_job_id(), iss="alice", iat=1)) is None
    journal.close()


def test_a_lost_journal_refuses_what_was_issued_before(host: Host) -> None:
    claims = host.job()
    envelope = host.sender.sign(claims)
    host.result(host.push(claims, envelope=envelope))
    assert host.stop() == 0
    for file in host.journal_file.parent.glob("journal.sqlite3*"):
        file.unlink()
    host.start()
    with host.broker.client() as connection:
        connection.flushall()
    host.push(claims, envelope=envelope)
    host.wait_for_dead_letter("before_epoch")
    assert host.stored(claims["jti"]) is None
    assert host.starts == 1
    later = host.job()
    later["iat"] += 5
    assert host.result(host.push(later)).status == "completed"
