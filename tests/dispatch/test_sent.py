from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.errors import KeysRefused, Unavailable
from dispatch.sent import SentJob, SentJobs

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
