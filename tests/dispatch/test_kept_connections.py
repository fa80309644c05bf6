from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.clock import ManualClock
from contracts.errors import Unavailable
from dispatch import kept_connections
from dispatch.remembered import Remembered
from dispatch.sent import SentJobs
from dispatch.sent_file import SentFile
from dispatch.sent_keys import AskedOnce
from tests.dispatch.test_sent import JOB

_NORMAL = 1  # sqlite.org, PRAGMA synchronous
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

_LOOK_AND_CLOSE = """
import sys
from pathlib import Path
from dispatch.sent import SentJobs
sent = SentJobs(Path(sys.argv[1]))
print(len(sent.recent(9)))
sent.close()
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

# The parent closes the last connection that its process has while the child uses its own.
_CLOSE_BESIDE_A_CHILD = """
import os, sys
from dataclasses import replace
from pathlib import Path
from dispatch.sent import SentJobs
from tests.dispatch.test_sent import JOB
def record(name):
    sent.record([replace(JOB, job_id=name * 20)], now=1_000)
sent = SentJobs(Path(sys.argv[1]))
sent.record([JOB], now=1_000)
heard, told, goes_on, go = *os.pipe(), *os.pipe()
child = os.fork()
if child == 0:
    record("b")
    os.write(told, b"x")
    os.read(goes_on, 1)
    record("c")
    sent.close()
    assert sent.find("c" * 20)
else:
    os.read(heard, 1)
    record("d")
    sent.close()
    os.write(go, b"x")
    assert os.waitpid(child, 0)[1] == 0
"""

# Another thread is in the middle of a write when the process forks.
_FORK_AMID_A_WRITE = """
import os, sys, threading
from dataclasses import replace
from pathlib import Path
from dispatch.sent import SentJobs
from tests.dispatch.test_sent import JOB
sent = SentJobs(Path(sys.argv[1]))
begun = threading.Event()
def write():
    with sent._file.writing() as connection:
        begun.set()
        for number in range(300_000):
            connection.execute("UPDATE sent SET tried_at = ?", (number,))
        connection.execute("INSERT INTO keys VALUES ('s', 'n', 'a', 1)")
sent.record([JOB], now=1_000)
thread = threading.Thread(target=write)
thread.start()
begun.wait()
child = os.fork()
assert not thread.is_alive() or child
sent.record([replace(JOB, job_id=("c" if child else "b") * 20)], now=1_000)
sent.close()
if child:
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
"""

# At any moment one of two threads has a use, and begins the next before the other one ends.
_FORK_AMONG_BUSY_THREADS = """
import itertools, os, sys, threading
from dataclasses import replace
from pathlib import Path
from dispatch.sent import SentJobs
from tests.dispatch.test_sent import JOB
sent = SentJobs(Path(sys.argv[1]))
sent.record([JOB], now=1_000)
ended, entries = threading.Event(), itertools.count()
turns, leave = ([threading.Semaphore(n), threading.Semaphore(0)] for n in (1, 0))
def use(mine, other):
    while not ended.is_set():
        if turns[mine].acquire(timeout=0.05):
            with sent._file.reading():
                if next(entries):
                    leave[other].release()
                turns[other].release()
                leave[mine].acquire(timeout=2)  # until the other one has begun
threads = [threading.Thread(target=use, args=pair) for pair in ((0, 1), (1, 0))]
for thread in threads:
    thread.start()
child = os.fork()
ended.set()
sent.record([replace(JOB, job_id=("c" if child else "b") * 20)], now=1_000)
sent.close()
if child:
    for thread in threads:
        thread.join()
    assert os.waitpid(child, 0)[1] == 0
"""

# Ctrl-C comes while a fork waits for a write of another thread.
_INTERRUPT_A_FORK = """
import os, signal, sys, threading
from dataclasses import replace
from pathlib import Path
from dispatch.sent import SentJobs
from tests.dispatch.test_sent import JOB
sent = SentJobs(Path(sys.argv[1]))
sent.record([JOB], now=1_000)
begun, ends = threading.Event(), threading.Event()
def write():
    with sent._file.writing() as connection:
        begun.set()
        ends.wait()
        connection.execute("INSERT INTO keys VALUES ('s', 'n', 'a', 1)")
def record():
    sent.record([replace(JOB, job_id="c" * 20)], now=1_000)
writer = threading.Thread(target=write, daemon=True)
writer.start()
begun.wait()
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
child = os.fork()
if child == 0:
    os._exit(0)
ends.set()
later = threading.Thread(target=record, daemon=True)
for thread in (writer, later):
    if thread is later:
        thread.start()
    thread.join(20)
    assert not thread.is_alive()
assert os.waitpid(child, 0)[1] == 0
sent.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "sent.sqlite3"


def _run(program: str, path: Path) -> subprocess.CompletedProcess[bytes]:
    env = {"PYTHONPATH": ":".join(item for item in sys.path if item)}
    words = [sys.executable, "-c", program, str(path)]
    return subprocess.run(words, env=env, capture_output=True, timeout=60, check=False)


def _is_refused(sent: SentJobs) -> bool:
    try:
        sent.find(JOB.job_id)
    except Unavailable:
        return True
    return False


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
    sent.record([JOB], now=1_000)
    with sent._file.reading() as connection:  # the one that every next use gets
        assert connection.execute("PRAGMA synchronous").fetchone() == (_NORMAL,)
        connection.set_trace_callback(said.append)
    sent.note_pushed([JOB.job_id], now=1_000)
    assert "COMMIT" in said
    assert [words for words in said if "synchronous" in words] == []
    said.clear()
    sent.record_once([replace(JOB, job_id="b" * 20)], AskedOnce("s", "k", "asked"), now=1_000)
    sent.keep_result(JOB.job_id, "r")
    told = [words for words in said if "synchronous" in words or words == "COMMIT"]
    flushed = ["PRAGMA synchronous = FULL", "COMMIT", "PRAGMA synchronous = NORMAL"]
    assert told == flushed * 2
    sent.close()


def test_a_second_connection_gives_up_no_lock_of_the_first(path: Path) -> None:
    sent = SentJobs(path)
    sent.record([JOB], now=1_000)
    with sent._file.reading(), sent._file.reading():
        pass
    other = _run(_LOOK_AND_CLOSE, path)
    assert other.returncode == 0, other.stderr
    sent.record([replace(JOB, job_id="b" * 20)], now=1_000)
    seen = _run(_LOOK_AND_CLOSE, path)
    assert (seen.returncode, seen.stdout) == (0, b"2\n"), seen.stderr
    sent.close()


@pytest.mark.linux
@pytest.mark.parametrize(
    ("program", "recorded"),
    [
        (_FORK, "abc"),
        (_CLOSE_BESIDE_A_CHILD, "abcd"),
        (_FORK_AMID_A_WRITE, "abc"),
        (_FORK_AMONG_BUSY_THREADS, "abc"),
        (_INTERRUPT_A_FORK, "ac"),
    ],
)
def test_a_forked_process_opens_its_own_and_harms_nobody(
    path: Path, program: str, recorded: str
) -> None:
    forked = _run(program, path)
    assert forked.returncode == 0, forked.stderr
    assert {job.job_id[0] for job in SentJobs(path).recent(9)} == set(recorded)
    with SentFile(path).reading() as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.linux
def test_a_process_that_was_forked_behind_our_back_is_refused_its_parents_file(path: Path) -> None:
    sent = SentJobs(path)
    sent.record([JOB], now=1_000)
    child = ctypes.CDLL(None).fork()  # no hook of the interpreter is run
    if child == 0:
        os._exit(7 if _is_refused(sent) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert sent.find(JOB.job_id) == JOB
    sent.close()


def test_threads_never_share_a_connection(path: Path) -> None:
    sent = SentJobs(path)
    jobs = [replace(JOB, job_id=f"{number:020d}") for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda job: sent.record([job], now=1_000), jobs))
    assert len(sent.recent(100)) == 40
    sent.close()


@pytest.mark.linux
def test_a_fork_that_would_wait_for_ever_goes_on_and_its_child_is_refused_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_connections, "_FORK_WAITS_S", 0.1)
    sent = SentJobs(path)
    sent.record([JOB], now=1_000)
    with sent._file.writing() as connection:
        child = os.fork()
        if child == 0:
            os._exit(7 if _is_refused(sent) else 1)
        connection.execute("INSERT INTO keys VALUES ('s', 'n', 'a', 1)")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert sent.find(JOB.job_id) == JOB
    sent.close()


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
