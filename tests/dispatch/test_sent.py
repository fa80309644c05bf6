from __future__ import annotations

import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.errors import KeysRefused, Unavailable
from dispatch.sent import SentJob, SentJobs
from dispatch.sent_keys import AskedOnce

JOB = SentJob(
    job_id="a" * 20,
    aud="host:PC1",
    lane="A",
    kind="run_agent",
    queue_name="fd.lane.A@PC1",
    sha256="0" * 64,
    iat=1_000,
    exp=2_000,
    agent="codex",
    ticket="T-1",
    repo="/r",
    mode="build",
    envelope="signed",
)


@pytest.fixture
def sent(tmp_path: Path) -> SentJobs:
    return SentJobs(tmp_path / "state" / "sent.sqlite3")


def test_what_was_sent_is_there_after_a_restart(sent: SentJobs, tmp_path: Path) -> None:
    sent.record([JOB], now=1_000)
    again = SentJobs(tmp_path / "state" / "sent.sqlite3")
    assert again.find(JOB.job_id) == JOB
    assert again.find("b" * 20) is None
    assert again.kept_result(JOB.job_id) is None


def test_the_record_is_private(sent: SentJobs, tmp_path: Path) -> None:
    sent.record([JOB], now=1_000)
    folder = tmp_path / "state"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())
    folder.chmod(0o755)
    with pytest.raises(KeysRefused, match="chmod 700"):
        sent.find(JOB.job_id)


def test_jobs_are_recorded_all_or_none(sent: SentJobs) -> None:
    sent.record([JOB], now=1_000)
    other = replace(JOB, job_id="b" * 20)
    with pytest.raises(Unavailable):
        sent.record([other, JOB], now=1_000)
    assert sent.find(other.job_id) is None


def test_the_first_result_is_kept_whoever_comes_second(sent: SentJobs) -> None:
    sent.record([JOB], now=1_000)
    with ThreadPoolExecutor(8) as pool:
        kept = set(pool.map(lambda n: sent.keep_result(JOB.job_id, f"r{n}"), range(24)))
    assert len(kept) == 1
    assert sent.kept_result(JOB.job_id) in kept
    found = sent.find(JOB.job_id)
    assert found is not None
    assert found.envelope == ""


def test_the_newest_jobs_come_first_and_the_old_ones_go(sent: SentJobs) -> None:
    jobs = [replace(JOB, job_id=f"{n:020d}", iat=1_000 + n) for n in range(5)]
    sent.record(jobs, now=1_000)
    sent.keep_result(jobs[0].job_id, "r")
    assert [job.iat for job in sent.recent(2)] == [1_004, 1_003]
    late = replace(JOB, iat=1_000 + 91 * 86_400)
    sent.record([late], now=late.iat)
    assert [job.job_id for job in sent.recent(10)] == [JOB.job_id]
    assert sent.kept_result(jobs[0].job_id) is None


def test_a_file_that_is_no_database_is_unavailable(sent: SentJobs, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(0o700)
    (folder / "sent.sqlite3").write_text("not a database " * 100)
    with pytest.raises(Unavailable, match="record of sent jobs"):
        sent.find(JOB.job_id)


def test_the_target_is_the_host_of_the_audience() -> None:
    assert JOB.target == "PC1"
    assert replace(JOB, aud="lane:A").target == ""


def test_the_envelope_is_in_no_representation() -> None:
    assert "signed" not in repr(JOB)


_FIRST_VERSION = """
CREATE TABLE sent (
    job_id TEXT PRIMARY KEY, aud TEXT NOT NULL, lane TEXT NOT NULL, kind TEXT NOT NULL,
    queue_name TEXT NOT NULL, sha256 TEXT NOT NULL, iat INTEGER NOT NULL, exp INTEGER NOT NULL,
    agent TEXT NOT NULL, ticket TEXT NOT NULL, repo TEXT NOT NULL, mode TEXT NOT NULL,
    envelope TEXT NOT NULL
) STRICT;
CREATE TABLE results (
    job_id TEXT PRIMARY KEY REFERENCES sent(job_id) ON DELETE CASCADE, envelope TEXT NOT NULL
) STRICT;
CREATE INDEX sent_by_time ON sent (iat);
INSERT INTO sent VALUES ('aaaaaaaaaaaaaaaaaaaa', 'host:PC1', 'A', 'run_agent', 'fd.lane.A@PC1',
    '0', 1000, 2000, 'codex', 'T-1', '/r', 'build', 'signed');
INSERT INTO results VALUES ('aaaaaaaaaaaaaaaaaaaa', 'r');
PRAGMA user_version = 1;
"""


def test_a_record_of_the_first_version_is_brought_up_to_date_once(
    sent: SentJobs, tmp_path: Path
) -> None:
    folder = tmp_path / "state"
    folder.mkdir(0o700)
    with closing(sqlite3.connect(folder / "sent.sqlite3")) as connection:
        connection.executescript(_FIRST_VERSION)
    (folder / "sent.sqlite3").chmod(0o600)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: sent.find(JOB.job_id), range(16)))
    assert {job.envelope for job in found if job is not None} == {"signed"}
    assert found[0] is not None
    assert (found[0].pushed_at, found[0].give_up_at, found[0].pushes) == (None, None, 0)
    assert sent.kept_result(JOB.job_id) == "r"
    with closing(sqlite3.connect(folder / "sent.sqlite3")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (5,)
    assert sent.open_jobs(9, now=1_500) == [], "it has an end since before the mark of that"


def test_a_key_is_forgotten_with_its_jobs_after_ninety_days(sent: SentJobs) -> None:
    once = AskedOnce("alice", "nightly", "asked")
    assert sent.sent_under(once) is None
    assert sent.record_once([JOB], once, now=JOB.iat) == ("asked", [JOB])
    again = AskedOnce("alice", "nightly", "something else")
    other = replace(JOB, job_id="b" * 20)
    assert sent.record_once([other], again, now=JOB.iat + 1) == ("asked", [JOB])
    assert sent.sent_under(again) == ("asked", [JOB])
    assert sent.sent_under(AskedOnce("bob", "nightly", "asked")) is None
    late = replace(other, iat=JOB.iat + 90 * 86_400 + 1)
    assert sent.record_once([late], again, now=late.iat) == ("something else", [late])
    assert sent.find(JOB.job_id) is None


def test_open_jobs_are_looked_at_in_turn(sent: SentJobs) -> None:
    jobs = [replace(JOB, job_id=f"{n:020d}", pushed_at=1_000) for n in range(5)]
    sent.record([*jobs, replace(JOB, job_id="z" * 20, exp=1_100)], now=1_000)
    sent.keep_result(jobs[0].job_id, "r")
    assert sent.receipts.keep(jobs[1].job_id, "receipt") == "receipt"
    seen = [[job.job_id for job in sent.open_jobs(2, now=1_500 + n)] for n in range(3)]
    ids = [job.job_id for job in jobs]
    assert seen == [[ids[2], ids[3]], [ids[4], ids[2]], [ids[3], ids[2]]]


def test_the_first_receipt_stays_and_none_is_kept_beside_a_result(sent: SentJobs) -> None:
    sent.record([JOB], now=1_000)
    assert sent.receipts.keep(JOB.job_id, "one") == "one"
    assert sent.receipts.keep(JOB.job_id, "two") == "one"
    assert sent.receipts.untold(10) == [JOB.job_id]
    sent.receipts.note_told(JOB.job_id)
    assert sent.receipts.untold(10) == []
    other = replace(JOB, job_id="b" * 20)
    sent.record([other], now=1_000)
    sent.keep_result(other.job_id, "r")
    assert sent.receipts.keep(other.job_id, "late") is None


def test_a_sweep_reads_the_jobs_whose_end_is_open_and_no_others(
    sent: SentJobs, tmp_path: Path
) -> None:
    jobs = [replace(JOB, job_id=f"{n:020d}", iat=1_000 + n, pushed_at=1_000) for n in range(6)]
    sent.record(jobs, now=1_000)
    sent.keep_result(jobs[0].job_id, "r")
    sent.receipts.keep(jobs[1].job_id, "receipt")
    with closing(sqlite3.connect(tmp_path / "state" / "sent.sqlite3")) as older, older:
        # As a process of an earlier version ends a job.
        older.execute("INSERT INTO results VALUES (?, 'r')", (jobs[2].job_id,))
    assert [job.job_id for job in sent.open_jobs(9, now=1_500)] == [j.job_id for j in jobs[3:]]
    seen = [replace(job, looked_at=1_500) for job in jobs[3:5]]
    assert sent.open_jobs(2, now=1_501) == seen


def test_neither_a_sweep_nor_an_enqueue_reads_all_jobs_that_are_remembered(
    sent: SentJobs, tmp_path: Path
) -> None:
    statements: list[str] = []
    with sent._file.reading() as connection:  # it is kept, and taken again by the calls below
        connection.set_trace_callback(statements.append)
    sent.record([JOB], now=1_000)
    sent.record_once([], AskedOnce("alice", "nightly", "asked"), now=1_000)
    sent.open_jobs(50, now=1_000)
    sent.recent(50)
    sent.receipts.untold(50)
    asked = [text for text in statements if text.split()[0] in ("SELECT", "UPDATE", "DELETE")]
    assert len(asked) >= 6
    with closing(sqlite3.connect(tmp_path / "state" / "sent.sqlite3")) as reader:
        for statement in asked:
            for row in reader.execute(f"EXPLAIN QUERY PLAN {statement}"):
                of_open = any(
                    f"INDEX {name}" in row[3] for name in ("sent_open", "receipts_untold")
                )
                in_order = "INDEX sent_by_time" in row[3] and "LIMIT 50" in statement
                assert not row[3].startswith("SCAN") or of_open or in_order, (row[3], statement)


def test_many_jobs_at_once_move_no_page_out_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "state" / "sent.sqlite3"
    sent = SentJobs(path)
    sent.record([replace(JOB, job_id="f" * 20)], now=1_000)
    before = path.stat().st_size
    for start in range(0, 1_000, 250):
        ids = [f"{number:020}" for number in range(start, start + 250)]
        sent.record([replace(JOB, job_id=name, envelope="e" * 7_000) for name in ids], now=1_000)
    assert path.stat().st_size == before, "each job is in the log, and is moved once for many"
    sent.close()
    assert SentJobs(path).find(f"{999:020}") is not None
    assert path.stat().st_size > 7_000_000
