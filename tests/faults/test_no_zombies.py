"""No zombies: two hundred jobs in one listener leave none."""

from __future__ import annotations

import psutil
import pytest

from tests.support.hosts import Host
from tests.support.processes import zombies_of

JOBS = 200


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_hundred_jobs_in_one_listener_leave_no_zombie(host: Host) -> None:
    """K44. Nine of ten jobs name a repository that is missing, which costs a run process and no
    agent; every tenth is a whole run."""
    host.stop()
    host.options = ("--concurrency", "4")
    host.start()
    assert host.process is not None
    pid = host.process.pid
    missing = host.payload(repo=str(host.home.parent / "missing"))
    host.run_honest_job()
    before = psutil.Process(pid).num_fds()
    jobs = [
        host.push(host.job(payload=host.payload() if number % 10 == 0 else missing))
        for number in range(JOBS)
    ]
    statuses = [host.result(job_id, seconds=600).status for job_id in jobs]
    assert statuses.count("completed") == JOBS // 10
    host.run_honest_job()
    assert zombies_of(pid) == []
    assert not [item for item in host.family() if item.status() == psutil.STATUS_ZOMBIE]
    assert psutil.Process(pid).num_fds() <= before + 4, "no descriptor is left open either"
