"""A listener that was taken for dead and goes on: it and its runs write and publish nothing more.

The only way there on one machine is one that cannot see the other's processes: a container that was
frozen, and a second one made beside it from the same home.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from contracts import naming
from tests.support.broker import Broker
from tests.support.fleet import make_repository, wait_until
from tests.support.hosts import Host, make_host, make_sender
from tests.support.tools import is_ci, require_tool

pytestmark = pytest.mark.linux
IN_A_CONTAINER = ("--pid", "--uts", "--fork", "--mount-proc", "--kill-child")


def container() -> list[str]:
    """Return what starts a command as the first process of numbers of its own."""
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return [require_tool("unshare"), *as_root, *IN_A_CONTAINER]


def require_containers() -> None:
    if subprocess.run([*container(), "true"], capture_output=True, timeout=60).returncode == 0:
        return
    if is_ci():
        pytest.fail("no process namespace can be made, and this run must not skip", pytrace=False)
    pytest.skip("only root may make a process namespace here")


class ContainedHost(Host):
    """A host whose listener runs in process numbers and under a machine's name of its own."""

    @property
    def command(self) -> list[str]:
        return [*container(), *super().command]

    def below(self) -> list[psutil.Process]:
        assert self.process is not None
        return psutil.Process(self.process.pid).children(recursive=True)

    def ask_to_end(self) -> None:
        """Ask the listener: `unshare` itself would end everything at once."""
        assert self.process is not None
        for child in psutil.Process(self.process.pid).children():
            child.send_signal(signal.SIGTERM)

    def stop(self, *, seconds: float = 90.0) -> int:
        if self.process is None:
            return 0
        self.ask_to_end()
        code = self.process.wait(seconds)
        self.process = None
        return code


def contained(host: Host, name: str) -> ContainedHost:
    fields = {field: getattr(host, field) for field in Host.__dataclass_fields__}
    return ContainedHost(**{**fields, "log_name": name})


@contextmanager
def both(broker: Broker, folder: Path) -> Iterator[tuple[ContainedHost, ContainedHost]]:
    require_containers()
    repo = make_repository(folder / "repo", {"readme.txt": "hello\n"})
    host = make_host(folder, broker, make_sender(folder / "sender"), repo)
    earlier, later = (contained(host, name) for name in ("earlier.log", "later.log"))
    try:
        yield earlier, later
    finally:
        later.stop()
        if earlier.process is not None:
            for process in (psutil.Process(earlier.process.pid), *earlier.below()):
                process.kill()
            earlier.process.wait(30)


def test_what_goes_on_after_its_job_was_taken_over_changes_nothing(
    broker: Broker, tmp_path: Path
) -> None:
    with both(broker, tmp_path) as (earlier, later):
        earlier.start()
        waiting = earlier.payload(task="wait until released")
        job_id = earlier.push(earlier.job(payload=waiting))
        wait_until(lambda: earlier.starts == 1, "the agent has started", 60)
        frozen = earlier.below()
        for process in frozen:
            process.suspend()

        later.start()  # waits for the lease of the one that it cannot see
        assert "waiting_for_lease" in later.log
        result = later.result(job_id, seconds=120)
        assert [risk.code for risk in result.risks] == ["listener_lost"]
        assert all(process.is_running() for process in frozen), "they were out of its sight"
        stored, history = later.stored(job_id), later.journal_history(job_id)

        (earlier.home / "released").touch()
        for process in reversed(frozen):
            process.resume()
        assert earlier.process is not None
        assert earlier.process.wait(120) == 0, "it sees that it lost its place, and ends"
        earlier.process = None
        assert "lease_lost" in earlier.log
        assert later.stored(job_id) == stored
        known = [state for state in history if state != "published"]
        assert [s for s in later.journal_history(job_id) if s != "published"] == known
        with broker.client() as connection:
            assert not connection.exists(naming.other_results_key(job_id))
        assert later.run_honest_job().status == "completed"
