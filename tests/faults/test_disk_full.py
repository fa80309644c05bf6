"""Disk full: the state folder, the worktrees, the outbox, one at a time, on disks of a few MB."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from contracts import naming
from contracts.run_agent import RunAgentResult
from tests.support.broker import Broker, running_broker
from tests.support.fleet import PROGRAM, make_repository, place_program, wait_until
from tests.support.hosts import Host, make_host, make_sender
from tests.support.volumes import fill, small_volume
from worker.reserve import RESERVE_BYTES

# Room for the reserve, a journal and some runs.
STATE_MB = 40

# No sandbox: in one, this agent could not reach the state folder to fill its disk.
# Fills the disk of the folder that stands in `fill` (once), works, and waits to be released.
FILLING_AGENT = """
import os, sys, time
if "--version" in sys.argv:
    sys.exit()
sys.stdin.read()
home = os.environ["HOME"]
with open(home + "/starts", "a") as log:
    log.write("one\\n")
open("work.txt", "w").write("work that must be kept\\n")
place = home + "/fill"
if os.path.exists(place):
    folder = open(place).read()
    os.unlink(place)
    out = os.open(folder + "/filler", os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(out, bytes(65536))
    except OSError:
        pass
    try:
        while True:
            os.write(out, b"x")
    except OSError:
        pass
if os.path.exists(home + "/complain"):
    sys.exit("cannot write: No space left on device")
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "broker") as server:
        yield server


@pytest.fixture
def host(broker: Broker, tmp_path: Path) -> Iterator[Host]:
    """A host whose state, and whose repository with its worktrees, are small disks of their own."""
    with (
        small_volume(tmp_path / "HOSTA" / "fleet" / "state", megabytes=STATE_MB),
        small_volume(tmp_path / "volume", megabytes=STATE_MB) as volume,
    ):
        repo = make_repository(volume / "repo", {"readme.txt": "hello\n"})
        host = make_host(tmp_path, broker, make_sender(tmp_path / "sender"), repo)
        place_program(host.home / "bin", "codex", FILLING_AGENT)
        config = host.fleet_home / "config.toml"
        config.write_text('[worktrees]\ndisk_floor_bytes = 0\n[sandbox]\nmode = "none"\n')
        config.chmod(0o600)
        host.start()
        try:
            yield host
        finally:
            host.stop()


def state(host: Host) -> Path:
    return host.fleet_home / "state"


def reserve(host: Host) -> Path:
    return state(host) / "reserve"


def is_held(host: Host) -> bool:
    return reserve(host).exists() and reserve(host).stat().st_blocks * 512 >= RESERVE_BYTES


def assert_names_the_disk(result: RunAgentResult, *codes: str) -> None:
    assert result.status == "failed", result
    assert result.needs_human_review
    said = {risk.code: risk.message for risk in result.risks}
    assert set(said) & set(codes), said
    assert "ENOSPC" in " ".join(said.values()), said


def works_again(host: Host) -> None:
    """The next job runs, and the reserve stands there again."""
    before = host.starts
    host.run_honest_job()
    assert host.starts == before + 1
    wait_until(lambda: is_held(host), "the reserve is taken again", 90)


def test_disk_full_state_ends_the_job_as_failed_and_the_next_one_runs(host: Host) -> None:
    host.run_honest_job()
    assert is_held(host), "the room is really taken"
    filler = fill(state(host))
    for _ in range(3):
        result = host.result(host.push(host.job()))
        assert_names_the_disk(result, "disk_full")
        host.published(result.jobId)
    assert host.starts == 1, "nothing is started that could not be written down"
    filler.unlink()
    works_again(host)


def test_disk_full_state_while_a_job_runs_still_ends_it_and_keeps_its_work(host: Host) -> None:
    """The outbox is the journal: what fills up before the end is what the result needs. Where the
    listener has borrowed the reserve before the run wanted to write, the run finds room again."""
    (host.home / "fill").write_text(str(state(host)))
    result = host.result(host.push(host.job()))
    if result.status != "completed":
        assert_names_the_disk(result, "disk_full")
    assert (Path(result.worktreePath) / "work.txt").exists(), "the work is kept and named"
    assert not is_held(host), "that is what the reserve was for"
    host.published(result.jobId)
    (state(host) / "filler").unlink()
    works_again(host)


def test_disk_full_outbox_a_result_survives_a_broker_that_is_away(host: Host) -> None:
    host.run_honest_job()
    (host.home / "fill").write_text(str(state(host)))
    job_id = host.push(host.job())
    wait_until(lambda: host.starts == 2, "the agent has started")
    host.broker.kill()
    wait_until(lambda: f"done job={job_id}" in host.log, "the end is written down", 60)
    host.kill()
    host.broker.start()
    host.start()
    assert_names_the_disk(host.result(job_id), "disk_full")
    (state(host) / "filler").unlink()
    works_again(host)
    assert host.starts == 3, "nothing was started twice"


def test_disk_full_at_the_start_of_the_listener_still_ends_what_a_crash_left(host: Host) -> None:
    place_program(host.home / "bin", "codex", FILLING_AGENT + "\ntime.sleep(600)\n")
    job_id = host.push(host.job())
    wait_until(lambda: host.starts == 1, "the agent has started")
    family = host.family()
    host.kill()
    # What still writes down its own end may borrow the reserve, and this filler would eat that too.
    psutil.wait_procs(family, timeout=30)
    filler = fill(state(host))
    host.start()
    result = host.result(job_id)
    assert [risk.code for risk in result.risks] == ["listener_lost"]
    filler.unlink()
    place_program(host.home / "bin", "codex", FILLING_AGENT)
    works_again(host)


def test_disk_full_state_leaves_no_job_behind_when_the_listener_is_stopped(host: Host) -> None:
    filler = fill(state(host))
    job_id = host.push(host.job())
    assert_names_the_disk(host.result(job_id), "disk_full")
    assert host.stop() == 0
    host.start()
    filler.unlink()
    works_again(host)


@pytest.mark.parametrize("when", ["before the start", "during the run", "and the agent says 0"])
def test_disk_full_worktrees_is_named_and_the_next_job_runs(when: str, host: Host) -> None:
    volume = host.repo.parent
    if when == "before the start":
        fill(volume)
    else:
        (host.home / "fill").write_text(str(volume))
    if when == "during the run":
        (host.home / "complain").touch()
    result = host.result(host.push(host.job()))
    if when == "and the agent says 0":
        assert "disk_full" in {risk.code for risk in result.risks}, result
        assert result.needs_human_review
    else:
        assert_names_the_disk(result, "disk_full", "no_space")
    assert host.starts == (0 if when == "before the start" else result.attempts)
    (volume / "filler").unlink()
    (host.home / "complain").unlink(missing_ok=True)
    works_again(host)


def test_disk_full_a_lane_job_waits_for_a_host_with_room(host: Host) -> None:
    filler = fill(state(host))
    job_id = host.push(host.job(aud=naming.lane_audience("L")))
    wait_until(lambda: f"postponed job={job_id}" in host.log, "it is left where it stood")
    filler.unlink()
    assert host.result(job_id).status == "completed"
    assert host.starts == 1


def test_disk_full_a_local_run_says_so_and_prints_its_result(host: Host) -> None:
    (host.home / "fill").write_text(str(state(host)))
    words = ["run-agent", "--agent", "codex", "--task", "x", "--ticket", "T-1"]
    done = subprocess.run(
        [PROGRAM, *words, "--repo", str(host.repo)],
        env=host.environment,
        cwd=host.home,
        capture_output=True,
        timeout=120,
    )
    result = RunAgentResult.model_validate_json(done.stdout)
    assert_names_the_disk(result, "disk_full")
    assert "not_journaled" not in {risk.code for risk in result.risks}, "the reserve took it"
    (state(host) / "filler").unlink()
    works_again(host)
