"""Host asleep: every process of it is stopped in the middle of a run, and wakes later."""

from __future__ import annotations

import time

import pytest

from tests.support.fleet import wait_until
from tests.support.host_acts import asleep
from tests.support.hosts import Host


def job_row(host: Host, job_id: str) -> dict[str, object]:
    return next(row for row in host.read_json("jobs")["jobs"] if row["jobId"] == job_id)


@pytest.mark.parametrize(
    "asleep_s",
    [
        pytest.param(20.0, id="longer than a heartbeat lives", marks=[pytest.mark.timeout(400)]),
        pytest.param(
            120.0,
            id="longer than a lease, a timeout of the broker and a skew",
            marks=[pytest.mark.slow, pytest.mark.timeout(600)],
        ),
    ],
)
def test_a_host_that_slept_shows_as_lost_meanwhile_and_delivers_its_result(
    asleep_s: float, host: Host
) -> None:
    job_id = host.start_waiting_job()
    assert job_row(host, job_id)["state"] == "started"
    with asleep(host):
        fell_asleep = time.monotonic()
        wait_until(lambda: job_row(host, job_id)["state"] == "host_lost", "it shows as lost", 60)
        row = job_row(host, job_id)
        assert str(row["why"]).startswith("last seen "), "and since when"
        assert [item["state"] for item in host.read_json("hosts")["hosts"]] == ["host_lost"]
        host.release()
        while time.monotonic() - fell_asleep < asleep_s:
            time.sleep(1.0)
            assert host.stored(job_id) is None, "nobody else ends it"
    result = host.result(job_id, seconds=90)
    assert (result.status, result.attempts) == ("completed", 1)
    assert host.starts == 1
    assert "interrupted" not in host.journal_history(job_id)
    wait_until(
        lambda: host.read_json("hosts")["hosts"][0]["state"] == "live", "the host is back", 60
    )
    host.run_honest_job()
