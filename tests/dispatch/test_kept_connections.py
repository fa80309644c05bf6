from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.clock import ManualClock
from dispatch.kept_connections import KeptConnections
from dispatch.remembered import Remembered
from dispatch.sent import SentJobs
from dispatch.sent_file import SentFile
from dispatch.sent_keys import AskedOnce
from tests.dispatch.test_sent import JOB

_RECORD_AND_DIE = """
import os, signal, sys
from pathlib import Path
from dispatch.sent import SentJobs
from tests.dispatch.test_sent import JOB
sent = SentJobs(Path(sys.argv[1]))
sent.record([JOB], now=1_000)
sent.note_pushed([JOB.job_id], now=1_001)
os.kill(os.getpid(), signal.SIGKILL)
"""

_FORK = """
import os, sys
from dataclasses import replace
from pathlib import Path
from dispatch.sent import SentJobs
from tests.dispatch.test_sent import JOB
sent = SentJobs(Path(sys.argv[1]))
sent.record([JOB], now=1_000)
child = os.fork()
sent.record([replace(JOB, job_id=("c" if child else "b") * 20)], now=1_000)
sent.close()
assert child == 0 or os.waitpid(child, 0)[1] == 0
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "sent.sqlite3"


def _run(program: str, path: Path) -> subprocess.CompletedProcess[bytes]:
    env = {"PYTHONPATH": ":".join(item for item in sys.path if item)}
    words = [sys.executable, "-c", program, str(path)]
    return subprocess.run(words, env=env, capture_output=True, timeout=60, check=False)


def test_one_connection_serves_one_use_after_the_other(path: Path) -> None:
    file = SentFile(path)
    with file.reading() as first, file.reading() as second:
        assert first is not second
    with file.reading() as again:
        assert again in (first, second)
    file.close()
    with file.reading() as opened:
        assert opened not in (first, second)
    file.close()


def test_a_use_that_failed_leaves_no_transaction_behind(path: Path) -> None:
    file = SentFile(path)

    def fail() -> None:
        with file.writing() as connection:
            connection.execute("INSERT INTO keys VALUES ('s', 'n', 'a', 1)")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with file.writing() as connection:
        assert connection.execute("SELECT * FROM keys").fetchall() == []
    file.close()


def test_a_record_that_was_taken_away_is_written_anew(path: Path) -> None:
    sent = SentJobs(path)
    sent.record([JOB], now=1_000)
    path.unlink()
    other = replace(JOB, job_id="b" * 20)
    sent.record([other], now=1_000)
    assert SentJobs(path).find(other.job_id) == other
    assert SentJobs(path).find(JOB.job_id) is None


def test_what_a_killed_process_recorded_is_there(path: Path) -> None:
    died = _run(_RECORD_AND_DIE, path)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert SentJobs(path).find(JOB.job_id) == replace(JOB, pushed_at=1_001)


def test_a_key_is_on_the_disk_itself_and_other_jobs_with_the_system(path: Path) -> None:
    sent, said = SentJobs(path), list[str]()
    with sent._file.reading() as connection:  # the one that every next use gets
        connection.set_trace_callback(said.append)
    sent.record([JOB], now=1_000)
    sent.note_pushed([JOB.job_id], now=1_000)
    assert [words for words in said if "synchronous" in words] == [
        "PRAGMA synchronous = NORMAL"
    ] * 2
    said.clear()
    sent.record_once([replace(JOB, job_id="b" * 20)], AskedOnce("s", "k", "asked"), now=1_000)
    sent.keep_result(JOB.job_id, "r")
    assert [words for words in said if "synchronous" in words] == ["PRAGMA synchronous = FULL"] * 2
    sent.close()


@pytest.mark.linux
def test_a_forked_process_opens_its_own_and_harms_nobody(path: Path) -> None:
    forked = _run(_FORK, path)
    assert forked.returncode == 0, forked.stderr
    assert {job.job_id[0] for job in SentJobs(path).recent(9)} == {"a", "b", "c"}


def test_threads_never_share_a_connection(path: Path) -> None:
    sent = SentJobs(path)
    jobs = [replace(JOB, job_id=f"{number:020d}") for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda job: sent.record([job], now=1_000), jobs))
    assert len(sent.recent(100)) == 40
    sent.close()


def test_nothing_is_kept_of_a_file_that_is_not_there(path: Path) -> None:
    kept = KeptConnections(path)
    assert kept.take() is None
    kept.close()


def test_an_answer_is_remembered_for_a_second_and_an_error_never() -> None:
    clock, told = ManualClock(), list[int]()

    def ask() -> int:
        told.append(len(told))
        if len(told) == 3:
            raise KeyError
        return len(told)

    asked = Remembered(ask, clock)
    assert (asked.value(), asked.value(), asked.anew(), asked.value()) == (1, 1, 2, 2)
    clock.advance(1.5)
    with pytest.raises(KeyError):
        asked.value()
    assert asked.value() == 4
