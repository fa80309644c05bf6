"""What the smallest job costs its host: exchanges with the broker and commits of the journal.

Counted on a real listener in this process, beside a real broker that tells what it was asked.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from contracts import naming
from contracts.clock import SystemClock
from dispatch.private_files import write_private_file
from dispatch.queue import FleetQueue, Outgoing
from runagent.process import system_runner
from tests.support.broker import Broker
from tests.support.fleet import wait_until
from tests.support.hosts import LANE, Host, make_host, make_sender
from worker.listener import Listener
from worker.settings import load_host_settings

PINGS = 8
# Looks of an idle listener, its beats and its looks for orders: some in each second, whatever runs.
IDLE = 60


@dataclass
class Counted:
    """A listener that is watched, and what it did."""

    host: Host
    listener: Listener
    statements: list[str] = field(default_factory=list)
    said: list[tuple[str, object]] = field(default_factory=list)

    @property
    def commits_about_jobs(self) -> int:
        """Return how many transactions wrote to jobs and were committed."""
        commits, writes = 0, False
        for statement in self.statements:
            if statement.startswith("BEGIN"):
                writes = False
            elif statement.startswith(("INSERT INTO jobs", "UPDATE jobs")):
                writes = True
            elif statement == "COMMIT":
                commits += writes
        return commits

    def ping(self, count: int, *, aud: str = "") -> list[str]:
        """Send pings at once, and return their ids when all are published."""
        queue = FleetQueue.connect(self.host.broker.url)
        lane = aud.startswith("lane:")
        name = naming.lane_queue(LANE) if lane else self.host.queue_name
        jobs = []
        for _ in range(count):
            claims = self.host.job(aud=aud or None, payload={}, kind="ping")
            text = self.host.sender.sign(claims)
            job = Outgoing(job_id=claims["jti"], queue_name=name, envelope_text=text)
            jobs.append(job)
        queue.push_all(jobs)
        queue.close()
        ids = [job.job_id for job in jobs]
        wait_until(lambda: all(("published", job) in self.said for job in ids), "published")
        return ids


@pytest.fixture
def counted(broker: Broker, tmp_path: Path) -> Iterator[Counted]:
    host = make_host(tmp_path, broker, make_sender(tmp_path / "sender"), tmp_path)
    policy = f'[senders."*"]\nkinds = ["ping"]\nrepo_roots = ["{tmp_path}"]\n'
    write_private_file(host.fleet_home / "policy.toml", policy.encode(), replace=True)
    flags = {"host.name": host.name, "host.lanes": (LANE,)}
    said: list[tuple[str, object]] = []
    listener = Listener(
        load_host_settings(flags=flags, environ=host.environment),
        environment=host.environment,
        runner=system_runner(),
        clock=SystemClock(),
        say=lambda what, **details: said.append((what, details.get("job"))),
    )
    watched = Counted(host, listener, said=said)
    listener._parts.journal._file._connection.set_trace_callback(watched.statements.append)
    thread = threading.Thread(target=listener.run)
    thread.start()
    try:
        watched.ping(1)
        yield watched
    finally:
        listener.request_stop()
        thread.join(60)
    assert not thread.is_alive()


@contextmanager
def asked_of(broker: Broker) -> Iterator[list[str]]:
    """Yield what listeners ask of the broker meanwhile, scripts as the one command that they are;
    complete when the block has ended."""
    found: list[str] = []
    with broker.client() as client, client.monitor() as monitor:
        yield found
        with broker.client() as other:
            clients = other.client_list()
            other.echo("the end")
        own = {item["addr"] for item in clients if item["name"] == "fleet-dispatch-listener"}
        while True:
            told = monitor.next_command()
            if "the end" in told["command"]:
                return
            address = f"{told['client_address']}:{told['client_port']}"
            if told["client_type"] != "lua" and address in own:
                found.append(told["command"])


def about(asked: Sequence[str], job_id: str) -> list[str]:
    return [command for command in asked if job_id in command]


@pytest.mark.parametrize("aud", ["", naming.lane_audience(LANE)], ids=["for a host", "for a lane"])
def test_a_ping_is_claimed_shown_and_answered_in_one_exchange_each(
    aud: str, counted: Counted
) -> None:
    with asked_of(counted.host.broker) as asked:
        ids = counted.ping(PINGS, aud=aud)
    # What a lane's job was taken as is settled at its end: until then it may be declined.
    exchanges = 4 if aud else 3
    assert [len(about(asked, job_id)) for job_id in ids] == [exchanges] * PINGS
    # To take a job is one more, and so is the look that finds none.
    assert len(asked) <= (exchanges + 3) * PINGS + IDLE
    with counted.host.broker.client() as client:
        assert client.keys("fd:taken:*") == []
        assert client.hget(naming.job_key(ids[0]), "state") == b"done"


def test_a_ping_costs_three_commits_at_most_one_of_them_before_it_starts(counted: Counted) -> None:
    before = counted.commits_about_jobs
    ids = counted.ping(PINGS)
    assert 2 * PINGS < counted.commits_about_jobs - before <= 3 * PINGS
    for job_id in ids:
        words = [what for what, job in counted.said if job == job_id]
        assert words == ["claimed", "done", "published"]
        history = counted.listener._parts.journal.history(job_id)
        assert [row.state.value for row in history] == ["claimed", "done", "published"]
