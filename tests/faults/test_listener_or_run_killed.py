"""Listener or run killed: kill -9 of the listener, of its run, of both, of everything at once.

Within 30 s of a restart the job has its one result, nothing of it runs and its worktree is kept.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from contracts import naming
from tests.support.broker import Broker
from tests.support.fleet import make_repository, wait_until
from tests.support.hosts import LANE, Host, are_gone, make_host, make_sender
from worker.crash_points import CRASH_VARIABLE, POINTS

LANE_AUD = naming.lane_audience(LANE)
LOST = ("failed", ["listener_lost"])
DONE = ("completed", [])
# What the next start makes of a listener's death at each moment. What stood in no journal was
# never begun; what was claimed or running is lost, and a result on disk is delivered.
EXPECTED_AFTER = {
    "before_claim": DONE,
    "after_claim": LOST,
    "after_run": LOST,
    "after_done": DONE,
    "before_publish": DONE,
    "after_stored": DONE,
    "after_published": DONE,
}


@pytest.fixture
def dying(broker: Broker, tmp_path: Path) -> Iterator[Host]:
    """A host that is not started yet, so that a test can say where it dies."""
    repo = make_repository(tmp_path / "repo", {"readme.txt": "hello\n"})
    host = make_host(tmp_path, broker, make_sender(tmp_path / "sender"), repo)
    try:
        yield host
    finally:
        host.stop()


def kill_at_once(pids: Sequence[int]) -> None:
    """Kill all of `pids` before any of them sees another one go."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)


@pytest.mark.parametrize("aud", [None, LANE_AUD], ids=["for the host", "for the lane"])
def test_a_killed_listener_ends_its_job_as_lost_and_starts_nothing_again(
    aud: str | None, host: Host
) -> None:
    """K60: a killed worker leaves no job that is started for ever."""
    job_id = host.start_waiting_job(aud=aud)
    family = host.family()
    host.kill()
    wait_until(lambda: are_gone(family), "nothing of the run is left", 10)
    host.start()
    result = host.result(job_id, seconds=30)
    assert result.status == "failed"
    assert [risk.code for risk in result.risks] == ["listener_lost"]
    assert (Path(result.worktreePath) / "starts.txt").exists(), "the work is kept and named"
    host.release()
    host.run_honest_job()
    assert host.starts == 2
    history = host.journal_history(job_id)
    assert history[:2] == ["claimed", "started"]
    assert history[-3:] == ["interrupted", "done", "published"]


def test_a_killed_run_process_ends_its_job_and_the_listener_goes_on(host: Host) -> None:
    job_id = host.start_waiting_job()
    family = host.family()
    (run,) = host.run_processes()
    run.kill()
    result = host.result(job_id)
    assert [risk.code for risk in result.risks] == ["run_process_died"]
    assert result.worktreePath
    wait_until(lambda: are_gone(family), "nothing of the run is left", 10)
    host.release()
    host.run_honest_job()


def listener_and_run(host: Host) -> list[psutil.Process]:
    return host.run_processes()


def everything_of_ours(host: Host) -> list[psutil.Process]:
    return host.family()


@pytest.mark.parametrize("victims", [listener_and_run, everything_of_ours])
def test_listener_and_run_killed_together_leave_nothing_and_the_job_ends(
    victims: Callable[[Host], list[psutil.Process]], host: Host
) -> None:
    """K41: what an agent leaves ends with its supervisor, or at the restart at the latest."""
    job_id = host.start_waiting_job()
    family = host.family()
    assert host.process is not None
    kill_at_once([host.process.pid, *(process.pid for process in victims(host))])
    host.kill()
    host.start()
    result = host.result(job_id, seconds=30)
    wait_until(lambda: are_gone(family), "nothing of the run is left", 10)
    assert [risk.code for risk in result.risks] == ["listener_lost"]
    assert (Path(result.worktreePath) / "starts.txt").exists(), "the work is kept and named"
    host.release()
    host.run_honest_job()
    assert host.starts == 2


@pytest.mark.parametrize("aud", [None, LANE_AUD], ids=["for the host", "for the lane"])
def test_a_job_that_was_taken_and_not_claimed_is_taken_again(aud: str | None, host: Host) -> None:
    assert host.stop() == 0
    job_id = host.push(host.job(aud=aud))
    queue = host.queue_name if aud is None else naming.lane_queue(LANE)
    with host.broker.client() as connection:
        taken = naming.taken_list(queue, host.name)
        connection.lmove(naming.rq_list(queue), taken, "LEFT", "RIGHT")
        host.start()
        assert host.result(job_id).status == "completed"
        wait_until(lambda: connection.llen(taken) == 0, "nothing stays taken")
    assert host.starts == 1


def test_a_job_that_has_ended_is_never_ended_again(host: Host) -> None:
    """K61: kills after the end move no finished job to failed."""
    result = host.run_honest_job()
    host.published(result.jobId)
    stored = host.stored(result.jobId)
    for _ in range(2):
        host.kill()
        host.start()
        host.run_honest_job()
    assert host.stored(result.jobId) == stored
    assert host.journal_history(result.jobId)[-2:] == ["done", "published"]
    with host.broker.client() as connection:
        assert not connection.exists(naming.other_results_key(result.jobId))


# --- at each step of the journal ---------------------------------------------------------------
# A cancel has its own moment and its own tests (test_cancelled).
@pytest.mark.parametrize(
    "point",
    [point for point, who in POINTS.items() if who == "listener" and point != "after_cancel_taken"],
)
@pytest.mark.parametrize("aud", [None, LANE_AUD], ids=["for the host", "for the lane"])
def test_a_listener_killed_at_a_step_of_the_journal_leaves_one_start_and_one_result(
    aud: str | None, point: str, dying: Host
) -> None:
    dying.extra = {CRASH_VARIABLE: f"listener:{point}"}
    dying.start()
    job_id = dying.push(dying.job(aud=aud, payload=dying.payload(validateCommand="true")))
    assert dying.process is not None
    assert dying.process.wait(60) == -signal.SIGKILL
    dying.process, dying.extra = None, {}
    dying.start()
    result = dying.result(job_id, seconds=30)
    wait_until(lambda: dying.journal_history(job_id)[-1] == "published", "it is delivered")
    assert (result.status, [risk.code for risk in result.risks]) == EXPECTED_AFTER[point]
    assert dying.starts == (0 if point == "after_claim" else 1)
    history = dying.journal_history(job_id)
    assert history.count("started") <= 1
    assert history.count("done") == 1
    if dying.starts:
        assert Path(result.worktreePath).is_dir(), "the work is kept and named"
    with dying.broker.client() as connection:
        assert not connection.exists(naming.other_results_key(job_id))
    starts = dying.starts
    dying.run_honest_job()
    assert dying.starts == starts + 1


@pytest.mark.parametrize("point", [point for point, who in POINTS.items() if who == "run"])
def test_a_run_killed_at_a_step_of_the_journal_ends_its_job_and_the_listener_goes_on(
    point: str, dying: Host
) -> None:
    dying.extra = {CRASH_VARIABLE: f"run:{point}"}
    dying.start()
    job_id = dying.push(dying.job())
    result = dying.result(job_id, seconds=60)
    assert [risk.code for risk in result.risks] == ["run_process_died"]
    assert Path(result.worktreePath).is_dir(), "the work is kept and named"
    wait_until(lambda: dying.family() == [], "nothing of the run is left", 10)
    assert dying.starts == (0 if point == "after_started" else 1)
    assert dying.stop() == 0
    dying.extra = {}
    dying.start()
    dying.run_honest_job()


@pytest.mark.parametrize("point", [point for point, who in POINTS.items() if who == "run"])
def test_listener_and_run_killed_together_at_a_step_of_the_journal_leave_nothing(
    point: str, dying: Host
) -> None:
    dying.extra = {CRASH_VARIABLE: f"run:{point}=stop"}
    dying.start()
    job_id = dying.push(dying.job())
    wait_until(lambda: stopped_run(dying) is not None, f"the run stands still {point}", 60)
    family = dying.family()
    assert dying.process is not None
    kill_at_once([dying.process.pid, *(process.pid for process in dying.run_processes())])
    dying.kill()
    dying.extra = {}
    dying.start()
    result = dying.result(job_id, seconds=30)
    wait_until(lambda: are_gone(family), "nothing of the run is left", 10)
    assert [risk.code for risk in result.risks] == ["listener_lost"]
    assert Path(result.worktreePath).is_dir(), "the work is kept and named"
    starts = dying.starts
    dying.run_honest_job()
    assert dying.starts == starts + 1


def stopped_run(host: Host) -> psutil.Process | None:
    for process in host.run_processes():
        if process.status() == psutil.STATUS_STOPPED:
            return process
    return None
