"""A listener that is told to end while its broker is away or hangs: it ends, and loses nothing."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import Broker, running_broker
from tests.support.fleet import wait_until
from tests.support.hosts import Host, listening_host

# Without limits the end took 58 s, measured on an idle machine; with them 1 to 14 s.
PROMPT_S = 45.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "broker", fsync="always") as server:
        yield server


@pytest.fixture
def host(broker: Broker, tmp_path: Path) -> Iterator[Host]:
    with listening_host(tmp_path, broker) as listening:
        yield listening


def end(host: Host) -> float:
    """Tell the listener to end and return the seconds that it took."""
    process, host.process = host.process, None
    assert process is not None
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    return time.monotonic() - began


@pytest.mark.parametrize("noticed", [False, True], ids=["at once", "after it was noticed"])
@pytest.mark.parametrize("how", ["kill", "suspend"])
def test_an_idle_listener_ends_promptly_without_its_broker(
    how: str, noticed: bool, host: Host
) -> None:
    host.run_honest_job()
    getattr(host.broker, how)()
    try:
        if noticed:
            wait_until(lambda: "broker_away" in host.log, "it is noticed", 60)
        assert end(host) < PROMPT_S
    finally:
        if how == "suspend":
            host.broker.resume()
    assert " stopped " in host.log


@pytest.mark.parametrize("how", ["kill", "suspend"])
def test_a_result_that_the_end_could_not_deliver_is_delivered_by_the_next_listener(
    how: str, host: Host
) -> None:
    job_id = host.push(host.job(payload=host.payload(task="wait until released")))
    wait_until(lambda: host.starts == 1, "the agent has started", 60)
    getattr(host.broker, how)()
    (host.home / "released").touch()
    wait_until(lambda: f"done job={job_id}" in host.log, "the run ends", 60)
    seconds = end(host)
    assert seconds < PROMPT_S
    if how == "suspend":
        host.broker.resume()
    else:
        host.broker.start()
    host.start()
    assert host.result(job_id).status == "completed"
    wait_until(lambda: host.journal_history(job_id).count("published") == 1, "it is marked")
    assert host.log.count(f"published job={job_id}") <= 1
    assert host.starts == 1
