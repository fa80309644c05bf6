"""What a lost run left: found by what was written down before and after its start, and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from contracts import limits
from contracts.clock import ManualClock, SystemClock
from contracts.errors import Unavailable
from contracts.ids import new_job_id
from runagent import leftovers
from runagent.leftovers import Leftovers, end_leftovers
from runagent.process import (
    ProcessSpec,
    RunningProcess,
    Script,
    ScriptedProcess,
    ScriptedRunner,
    StdinMode,
    system_runner,
)
from tests.support.processes import is_alive, wait_until
from worker.housekeeping import Housekeeping
from worker.journal.journal import Journal
from worker.journal.owners import this_place
from worker.journal.processes import RecordedProcess
from worker.journal.records import JobRecord, NewJob
from worker.runs.lost_runs import LostRuns
from worker.runs.recording_runner import RecordingRunner
from worker.runs.run_folders import RunFolders

pytestmark = pytest.mark.linux
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(flush=True)
time.sleep(60)
"""


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path / "state" / "journal.sqlite3", SystemClock())
    yield opened
    opened.close()


def lost_runs(journal: Journal, root: Path) -> LostRuns:
    return LostRuns(journal, lambda job: root / job, system_runner(), 60.0)


def claimed(journal: Journal) -> JobRecord:
    job = NewJob(jti=new_job_id())
    assert journal.claim(job) is None
    record = journal.find(job.jti)
    assert record is not None
    return record


def sleeping(env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own which does not listen to TERM."""
    child = subprocess.Popen(
        [sys.executable, "-ISEc", DEAF],
        env=env or {},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    return child


def spec_of(*argv: str) -> ProcessSpec:
    return ProcessSpec(argv=argv, cwd="/", env={"PATH": os.defpath}, timeout_s=60)


def test_what_starts_for_a_run_is_written_down_with_its_warden_until_it_has_ended(
    journal: Journal,
) -> None:
    job = claimed(journal).jti
    running = RecordingRunner(system_runner(), journal.processes, job).start(spec_of("sleep", "60"))
    rows = {row.role: row for row in journal.processes.running(job) if row.pid}
    assert set(rows) == {"sleep", "warden of sleep"}
    for row in rows.values():
        assert abs(psutil.Process(row.pid).create_time() - row.started) < 0.01
    marker = f"FLEET_DISPATCH_RUN={rows['sleep'].marker}".encode()
    for row in rows.values():
        assert marker in Path(f"/proc/{row.pid}/environ").read_bytes().split(b"\0")
    assert rows["sleep"].pid == running.pid
    running.abort("enough")
    running.wait()
    assert journal.processes.running(job) == []
    assert len(journal.processes.of(job)) == 3, "with the marker that was there before the start"


class OrphanRunner:
    """Starts what has a parent that we did not start."""

    def start(self, spec: ProcessSpec) -> RunningProcess:
        running = ScriptedProcess(spec, Script())
        running.pid = os.getpid()
        return running


def test_a_parent_that_is_no_child_of_ours_is_not_written_down_as_a_warden(
    journal: Journal,
) -> None:
    """Once the warden is gone, its leader's parent is whoever takes in orphans, a session's manager
    say: a later listener must not end that."""
    job = claimed(journal).jti
    RecordingRunner(OrphanRunner(), journal.processes, job).start(spec_of("agent"))
    rows = [row for row in journal.processes.running(job) if row.pid]
    assert [(row.role, row.pid) for row in rows] == [("agent", os.getpid())]


def test_our_own_git_is_written_down_once_for_all_of_a_run(journal: Journal) -> None:
    job = claimed(journal).jti
    inner = ScriptedRunner({"git": Script()})
    runner = RecordingRunner(inner, journal.processes, job)
    for _ in range(3):
        runner.start(spec_of("git", "status")).wait()
    (row,) = journal.processes.running(job)
    assert (row.role, row.pid, {spec.marker for spec in inner.started}) == ("git", 0, {row.marker})


def test_a_recorded_process_is_used_like_any_other(journal: Journal) -> None:
    inner = ScriptedRunner({"cat": Script(echo_stdin=True)})
    spec = ProcessSpec(
        argv=("cat",), cwd="/", env={}, timeout_s=60, stdin=b"a", keep_stdin_open=True
    )
    assert spec.stdin_mode is StdinMode.OPEN
    running = RecordingRunner(inner, journal.processes, claimed(journal).jti, role="x").start(spec)
    assert running.pid == 1
    running.write(b"b")
    running.close_stdin()
    assert running.wait().stdout == b"ab"


def test_what_cannot_be_written_down_is_started_all_the_same(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise Unavailable("the disk is full")

    monkeypatch.setattr(journal.processes, "add", full)
    inner = ScriptedRunner({"agent": Script(exit_code=3)})
    runner = RecordingRunner(inner, journal.processes, claimed(journal).jti)
    assert runner.start(spec_of("agent")).wait().exit_code == 3


def test_what_carries_a_marker_is_ended_though_no_number_was_written(
    journal: Journal, tmp_path: Path
) -> None:
    record = claimed(journal)
    journal.processes.expect(record.jti, "agent", "a-marker")
    child = sleeping({"FLEET_DISPATCH_RUN": "a-marker"})
    folder = tmp_path / record.jti
    folder.mkdir()
    (folder / "prompt").write_text("secret")
    (folder / "attempt-1.stdout").write_text("kept")
    assert lost_runs(journal, tmp_path).end([record]) == 0
    assert child.wait(10) == -signal.SIGKILL
    assert journal.processes.running(record.jti) == []
    assert [path.name for path in folder.iterdir()] == ["attempt-1.stdout"]


def test_a_recorded_number_is_ended_with_its_session_and_a_later_process_of_it_is_not(
    journal: Journal, tmp_path: Path
) -> None:
    ours, other = sleeping(), sleeping()
    record = claimed(journal)
    started = psutil.Process(ours.pid).create_time()
    rows = [
        RecordedProcess(record.jti, ours.pid, started, "agent", "m1"),
        RecordedProcess(record.jti, other.pid, started - 1_000, "agent", "m2"),
    ]
    journal.processes.add(rows)
    lost_runs(journal, tmp_path).end([record])
    assert ours.wait(10) == -signal.SIGKILL
    assert other.poll() is None
    other.kill()
    other.wait(10)


def test_numbers_of_another_machine_mean_nothing_here(journal: Journal, tmp_path: Path) -> None:
    child = sleeping()
    record = claimed(journal)
    started = psutil.Process(child.pid).create_time()
    journal.processes.add([RecordedProcess(record.jti, child.pid, started, "agent", "m")])
    elsewhere = f"{this_place()._replace(name='x', boot='y')}:1:1.0"
    moved = JobRecord(**{**{k: getattr(record, k) for k in record.__slots__}, "owner": elsewhere})
    lost_runs(journal, tmp_path).end([moved])
    assert child.poll() is None
    child.kill()
    child.wait(10)


def test_this_process_and_its_ancestors_are_never_among_the_leftovers() -> None:
    line = frozenset({os.getpid(), os.getppid()})
    assert Leftovers(pids=line).find() == set() or not Leftovers(pids=line).find() & line


def test_what_ends_at_the_first_word_gets_its_grace() -> None:
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    os.kill(child.pid, signal.SIGSTOP)
    ended = end_leftovers(Leftovers(pids=frozenset({child.pid})), grace_s=60)
    assert child.wait(10) == -signal.SIGTERM, "a stopped one is woken to hear it"
    assert (ended.ended, ended.left) == (1, 0)


def test_without_a_proc_only_the_numbers_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    child = sleeping()
    monkeypatch.setattr(leftovers.os.path, "isdir", lambda _path: False)
    found = Leftovers(pids=frozenset({child.pid, 2**22 + 1}), markers=frozenset({"x"})).find()
    assert found == {child.pid}
    child.kill()
    child.wait(10)
    assert wait_until(lambda: not is_alive(child.pid))


def test_a_folder_goes_with_its_job_and_a_prompt_with_its_end(tmp_path: Path) -> None:
    clock = ManualClock(wall=2_000_000_000.0)
    journal = Journal(tmp_path / "journal.sqlite3", clock)
    root = tmp_path / "runs"
    folders = RunFolders(root, journal, clock)
    assert folders.tidy() == 0, "where nothing ever ran"
    running, ended, forgotten, fresh, kept = (new_job_id() for _ in range(5))
    for job in (running, ended, forgotten, fresh, kept):
        (root / job).mkdir(parents=True)
        (root / job / "prompt").write_text("secret")
        old = job in (forgotten, kept)
        os.utime(root / job, (1, 1) if old else (clock.wall(), clock.wall()))
    (root / kept / "box" / "git").mkdir(parents=True)
    (root / "not-a-job").mkdir()
    (root / new_job_id()).symlink_to(tmp_path)
    for job in (running, ended):
        journal.claim(NewJob(jti=job))
    journal.finish(ended, b"{}")
    said: list[str] = []
    housekeeping = Housekeeping(journal, folders, clock, lambda what, **_: said.append(what))
    for job in (forgotten, kept):
        os.utime(root / job, (1, 1))
    housekeeping.tidy()
    assert said == ["tidied"]
    assert not (root / forgotten).exists()
    assert (root / kept / "box" / "git").is_dir(), "commits that did not come home stay"
    assert {job for job in (running, ended, fresh) if (root / job / "prompt").exists()} == {running}
    clock.advance(limits.RESULT_TTL_S + limits.SKEW_S * 2 + 1)
    assert journal.prune() == 1, "an ended local run is kept as long as a delivered result"
    journal.close()


def test_a_journal_that_cannot_be_tidied_is_said_and_tried_again(tmp_path: Path) -> None:
    clock = ManualClock()
    journal = Journal(tmp_path / "journal.sqlite3", clock)
    said: list[str] = []
    folders = RunFolders(tmp_path, journal, clock)
    housekeeping = Housekeeping(journal, folders, clock, lambda what, **_: said.append(what))
    with journal._file.writing() as database:
        database.execute("DROP TABLE processes")

    class Twice(ManualClock):
        looks = 0

        def wait(self, event: object, seconds: float) -> bool:
            self.looks += 1
            return self.looks > 2

    housekeeping._clock = Twice()
    housekeeping.run(None)  # type: ignore[arg-type]
    assert said == ["not_tidied", "not_tidied"]
    journal.close()
