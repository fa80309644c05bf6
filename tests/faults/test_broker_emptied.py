"""Broker emptied, or failed over with loss: sending the same job again finds its result, or queues
it once; what the host knows decides, not what the broker remembers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from contracts import naming
from tests.support.broker import Broker, running_broker
from tests.support.fleet import make_repository, wait_until
from tests.support.hosts import Host, make_host, make_sender
from tests.support.proxy import Proxy, proxy_to


def empty_it(broker: Broker) -> None:
    with broker.client() as connection:
        connection.flushall()


def restart_without_its_file(broker: Broker) -> None:
    broker.kill()
    shutil.rmtree(broker.folder / "appendonlydir")
    broker.start()


LOSSES = pytest.mark.parametrize("lose", [empty_it, restart_without_its_file])


@LOSSES
def test_a_finished_job_sent_again_brings_its_result_and_no_second_start(
    lose: Callable[[Broker], None], host: Host
) -> None:
    claims = host.job()
    envelope = host.sender.sign(claims)
    first = host.result(host.push(claims, envelope=envelope))
    host.published(first.jobId)
    stored = host.stored(first.jobId)
    lose(host.broker)
    host.push(claims, envelope=envelope)
    assert host.result(first.jobId) == first
    assert host.stored(first.jobId) == stored
    assert host.starts == 1


@LOSSES
def test_a_running_job_ends_once_and_its_result_arrives(
    lose: Callable[[Broker], None], host: Host
) -> None:
    claims = host.job(payload=host.payload(task="wait until released"))
    envelope = host.sender.sign(claims)
    job_id = host.push(claims, envelope=envelope)
    wait_until(lambda: host.starts == 1, "the agent has started")
    lose(host.broker)
    host.push(claims, envelope=envelope)  # the sender sees nothing of it and sends again
    host.release()
    assert host.result(job_id).status == "completed"
    with host.broker.client() as connection:
        queue = naming.rq_list(host.queue_name)
        wait_until(lambda: connection.llen(queue) == 0, "the copy is looked at")
    host.run_honest_job()
    assert host.starts == 2
    assert host.journal_history(job_id).count("started") == 1


@LOSSES
def test_a_queued_job_that_was_lost_runs_once_when_it_is_sent_again(
    lose: Callable[[Broker], None], host: Host
) -> None:
    running = host.start_waiting_job()
    claims = host.job()
    envelope = host.sender.sign(claims)
    job_id = host.push(claims, envelope=envelope)
    lose(host.broker)
    for _ in range(3):
        host.push(claims, envelope=envelope)
    host.release()
    assert host.result(running).status == "completed"
    assert host.result(job_id).status == "completed"
    host.run_honest_job()
    assert host.starts == 3


# --- a replica that lags, promoted -------------------------------------------------------------
class Failover:
    """A primary, a replica behind a link that can be frozen, and a host that follows a proxy."""

    def __init__(self, primary: Broker, replica: Broker, link: Proxy, front: Proxy) -> None:
        self._primary, self._replica = primary, replica
        self._link, self._front = link, front

    def follow(self) -> None:
        """Make the replica one, and wait until it holds everything."""
        with self._primary.client() as primary, self._replica.client() as connection:
            primary.config_set("repl-diskless-sync-delay", 0)
            connection.replicaof("127.0.0.1", str(self._link.port))
        self.catch_up()

    def catch_up(self) -> None:
        """Wait until the replica holds what the primary holds."""
        with self._primary.client() as primary, self._replica.client() as replica:
            primary.set("mark", "0")
            mark = str(primary.incr("mark")).encode() + str(id(self)).encode()
            primary.set("mark", mark)
            wait_until(lambda: replica.get("mark") == mark, "the replica follows")

    def freeze(self) -> None:
        """Let nothing reach the replica from here on."""
        self.catch_up()
        self._link.stall()

    def fail_over(self) -> Broker:
        """Kill the primary, promote the stale replica, and lead everybody there."""
        self._primary.kill()
        self._link.cut()
        with self._replica.client() as connection:
            connection.replicaof("NO", "ONE")
            wait_until(lambda: _role(connection) == "master", "the replica is promoted")
        self._front.lead_to(self._replica.port)
        return self._replica


def _role(connection: redis.Redis) -> str:
    return str(connection.info("replication")["role"])


@pytest.fixture
def pair(broker: Broker, tmp_path: Path) -> Iterator[tuple[Failover, Host]]:
    with _failover(broker, tmp_path) as (failover, front):
        repo = make_repository(tmp_path / "repo", {"readme.txt": "hello\n"})
        sender = make_sender(tmp_path / "sender")
        through = {"FLEET_DISPATCH_REDIS_URL": front.url}
        host = make_host(tmp_path, broker, sender, repo, extra=through)
        host.start()
        try:
            yield failover, host
        finally:
            front.flow()
            host.stop()


@contextmanager
def _failover(broker: Broker, folder: Path) -> Iterator[tuple[Failover, Proxy]]:
    with (
        running_broker(folder / "replica", fsync="always") as replica,
        proxy_to(broker.port) as link,
        proxy_to(broker.port) as front,
    ):
        failover = Failover(broker, replica, link, front)
        failover.follow()
        yield failover, front


def test_a_result_that_the_promoted_replica_never_saw_is_found_again(
    pair: tuple[Failover, Host],
) -> None:
    failover, host = pair
    failover.freeze()
    claims = host.job()
    envelope = host.sender.sign(claims)
    first = host.result(host.push(claims, envelope=envelope))
    host.published(first.jobId)
    stored = host.stored(first.jobId)
    host.broker = failover.fail_over()
    assert host.stored(first.jobId) is None, "the replica is stale indeed"
    host.push(claims, envelope=envelope)
    assert host.result(first.jobId) == first
    assert host.stored(first.jobId) == stored
    assert host.starts == 1


def test_a_job_that_the_promoted_replica_shows_as_queued_again_does_not_start_again(
    pair: tuple[Failover, Host],
) -> None:
    failover, host = pair
    blocker = host.start_waiting_job()
    job_id = host.push(host.job())
    failover.freeze()  # the replica has it in the queue, and will have it there for ever
    host.release()
    first = host.result(job_id)
    host.published(job_id)
    stored = host.stored(job_id)
    host.broker = failover.fail_over()
    assert host.result(job_id) == first
    assert host.stored(job_id) == stored
    with host.broker.client() as connection:
        queue = naming.rq_list(host.queue_name)
        wait_until(lambda: connection.llen(queue) == 0, "what came again is looked at")
    host.run_honest_job()
    assert host.starts == 3
    assert host.journal_history(blocker).count("started") == 1
    assert host.journal_history(job_id).count("started") == 1


def test_a_queued_job_that_the_promoted_replica_never_saw_runs_once_when_sent_again(
    pair: tuple[Failover, Host],
) -> None:
    failover, host = pair
    host.start_waiting_job()
    failover.freeze()
    claims = host.job()
    envelope = host.sender.sign(claims)
    job_id = host.push(claims, envelope=envelope)
    host.broker = failover.fail_over()
    with host.broker.client() as connection:
        assert connection.llen(naming.rq_list(host.queue_name)) == 0, "the replica is stale indeed"
    for _ in range(2):
        host.push(claims, envelope=envelope)
    host.release()
    assert host.result(job_id).status == "completed"
    host.run_honest_job()
    assert host.starts == 3
