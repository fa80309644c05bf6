"""An agent without a box that ends all of ours at once, and sheds session and environment, is ended
at the restart, because its cgroup still says whose it is."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from runagent._cgroup import find_leaves
from tests.support.broker import Broker, running_broker
from tests.support.fleet import place_program, wait_until
from tests.support.hosts import Host, listening_host
from tests.support.tools import require_cgroup

pytestmark = pytest.mark.linux

SHEDDING_AGENT = """
import os, sys, time
if "--version" in sys.argv:
    sys.exit()
sys.stdin.read()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        place = os.environ["HOME"] + "/shed"
        code = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
        with open(place + ".new", "w") as file:
            file.write(str(os.getpid()))
        os.rename(place + ".new", place)
        os.execve(sys.executable, [sys.executable, "-ISEc", code], {})
    os._exit(0)
os.wait()
time.sleep(600)
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "broker", fsync="always") as server:
        yield server


def test_it_ends_before_its_job_does(broker: Broker, tmp_path: Path) -> None:
    require_cgroup()
    with listening_host(tmp_path, broker) as host:
        place_program(host.home / "bin", "codex", SHEDDING_AGENT)
        job_id = host.push(host.job())
        wait_until((host.home / "shed").exists, "the agent has shed all", 90)
        shed = psutil.Process(int((host.home / "shed").read_text()))
        wait_until(lambda: shed.environ() == {}, "it has no environment", 60)
        kill_all_but(shed, host)
        assert shed.is_running(), "nobody was left to end it"
        host.start()
        result = host.result(job_id, seconds=120)
        assert not shed.is_running() or shed.status() == psutil.STATUS_ZOMBIE
        assert [risk.code for risk in result.risks] == ["listener_lost"]
        place_program(host.home / "bin", "codex", "import sys; sys.stdin.read(); open('x', 'w')")
        assert host.result(host.push(host.job())).status == "completed"
        markers = markers_of(host)
    assert len(markers) >= 4, "each job had a run process and an agent"
    wait_until(lambda: not find_leaves(markers), "nothing of either run is left", 30)


def markers_of(host: Host) -> frozenset[str]:
    """Return what the host's journal knows its runs by: the hierarchy is the whole machine's, and
    another test may have killed all that would have cleaned up after it."""
    with closing(sqlite3.connect(host.journal_file)) as journal:
        return frozenset(row[0] for row in journal.execute("SELECT marker FROM processes"))


def kill_all_but(shed: psutil.Process, host: Host) -> None:
    assert host.process is not None
    doomed = [psutil.Process(host.process.pid), *(p for p in host.family() if p != shed)]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in doomed:
            process.send_signal(number)
    host.kill()
