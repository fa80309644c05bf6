"""What befalls a host in more than one test: it sleeps, or a person runs an agent on it by hand."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.fleet import PROGRAM
from tests.support.hosts import Host


@contextmanager
def asleep(host: Host) -> Iterator[None]:
    """Stop every process of the host, the agents too, and wake them all afterwards."""
    assert host.process is not None
    pids = [host.process.pid, *(process.pid for process in host.family())]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def local_run(host: Host) -> subprocess.Popen[bytes]:
    """Start a run without a queue on the host, by an agent that stays."""
    words = ("run-agent", "--agent", "codex", "--ticket", "T-1", "--repo", str(host.repo))
    return subprocess.Popen(
        [PROGRAM, *words, "--task", "stay"],
        env=host.environment,
        cwd=host.home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
