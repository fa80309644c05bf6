"""Sender killed: between its own disk and the broker, or before it heard back. The same command
again finds the same job, and the job starts once."""

from __future__ import annotations

import json
import select
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from contracts import naming
from dispatch.sent import SentJob
from tests.support.broker import Broker
from tests.support.fleet import wait_until
from tests.support.hosts import LANE, Host
from tests.support.proxy import Proxy
from tests.support.sender_desk import SenderDesk

KEY = ("--idempotency-key", "nightly 7")
FOR = pytest.mark.parametrize("for_lane", [False, True], ids=["for the host", "for the lane"])


class DeafProxy(Proxy):
    """A proxy that brings a push to the broker and no answer back."""

    def _forward(self, client: socket.socket, upstream: socket.socket) -> None:
        other = {client: upstream, upstream: client}
        while not self._ended.is_set():
            ready = select.select(list(other), [], [], 0.05)[0]
            self._flowing.wait()
            for source in ready:
                data = source.recv(65_536)
                if not data:
                    return
                other[source].sendall(data)
                if source is client and b"\r\nEXEC\r\n" in data:
                    self.stall()


@contextmanager
def deaf_proxy(broker: Broker) -> Iterator[DeafProxy]:
    proxy = DeafProxy(broker.port)
    try:
        yield proxy
    finally:
        proxy.close()


@contextmanager
def started(desk: SenderDesk, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Yield a running verb, killed afterwards if it still runs."""
    process = desk.start(*words)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=60)


def waiting(host: Host, *, for_lane: bool) -> list[str]:
    queue = naming.lane_queue(LANE) if for_lane else host.queue_name
    with host.broker.client() as connection:
        return [item.decode() for item in connection.lrange(naming.rq_list(queue), 0, -1)]


def the_one_job(desk: SenderDesk) -> SentJob:
    (job,) = desk.recorded()
    return job


@FOR
def test_a_sender_killed_between_its_record_and_the_push_sends_the_same_job_when_asked_again(
    for_lane: bool, host: Host
) -> None:
    assert host.stop() == 0
    desk = SenderDesk.of(host)
    words = desk.enqueue_words(host, *KEY, for_lane=for_lane)
    host.broker.suspend()  # it has written the job down, and the broker does not answer
    try:
        with started(desk, *words):
            wait_until(lambda: bool(desk.recorded()), "the job is on the sender's disk")
    finally:
        host.broker.resume()
    written = the_one_job(desk)
    assert waiting(host, for_lane=for_lane) == [], "it was killed before the push"
    again = desk.enqueue(host, *KEY, for_lane=for_lane)
    assert (again["jobId"], again["pushed"]) == (written.job_id, "queued")
    assert waiting(host, for_lane=for_lane) == [written.job_id]
    assert the_one_job(desk).envelope == written.envelope
    host.start()
    assert host.result(written.job_id).status == "completed"
    done = desk.enqueue(host, *KEY, "--wait", "60", for_lane=for_lane)
    assert (done["jobId"], done["pushed"], done["status"]) == (
        written.job_id,
        "finished",
        "completed",
    )
    assert host.starts == 1


@FOR
def test_a_sender_killed_before_it_heard_back_finds_its_job_when_asked_again(
    for_lane: bool, host: Host
) -> None:
    assert host.stop() == 0
    with deaf_proxy(host.broker) as proxy:
        deaf = SenderDesk.of(host, proxy.url)
        with started(deaf, *deaf.enqueue_words(host, *KEY, for_lane=for_lane)):
            wait_until(lambda: bool(waiting(host, for_lane=for_lane)), "the push has arrived")
    desk = SenderDesk.of(host)
    written = the_one_job(desk)
    assert written.pushed_at is None, "it never heard back"
    again = desk.enqueue(host, *KEY, for_lane=for_lane)
    assert (again["jobId"], again["pushed"]) == (written.job_id, "already_there")
    host.start()
    assert host.result(written.job_id).status == "completed"
    assert host.starts == 1


def empty_it(broker: Broker) -> None:
    with broker.client() as connection:
        connection.flushall()


def restart_without_its_file(broker: Broker) -> None:
    broker.kill()
    shutil.rmtree(broker.folder / "appendonlydir")
    broker.start()


@pytest.mark.parametrize("lose", [empty_it, restart_without_its_file])
def test_a_lane_job_whose_sender_never_heard_back_is_not_queued_again_after_a_loss(
    lose: Callable[[Broker], None], host: Host
) -> None:
    """A host may have started it before the data went: nobody here can know."""
    with deaf_proxy(host.broker) as proxy:
        deaf = SenderDesk.of(host, proxy.url)
        with started(deaf, *deaf.enqueue_words(host, *KEY, for_lane=True)):
            wait_until(lambda: host.starts == 1, "a host has started it")
    desk = SenderDesk.of(host)
    job_id = the_one_job(desk).job_id
    host.published(job_id)
    lose(host.broker)
    again = desk.enqueue(host, *KEY, for_lane=True)
    assert (again["jobId"], again["pushed"]) == (job_id, "claim_unknown")
    assert again["note"].startswith("claim unknown: ")
    assert waiting(host, for_lane=True) == []
    forced = desk.enqueue(host, *KEY, "--resend-lane", "--wait", "60", for_lane=True)
    assert (forced["jobId"], forced["status"]) == (job_id, "completed")
    assert host.starts == 1, "this host knows it from its journal"


def test_two_senders_at_once_with_one_key_are_one_job(host: Host) -> None:
    desk = SenderDesk.of(host)
    words = (*desk.enqueue_words(host, *KEY), "--wait", "120")
    with ThreadPoolExecutor(4) as pool:
        documents = list(pool.map(lambda _: desk.read_json(*words), range(4)))
    assert len({document["jobs"][0]["jobId"] for document in documents}) == 1
    assert {document["jobs"][0]["status"] for document in documents} == {"completed"}
    assert len(desk.recorded()) == 1
    assert host.starts == 1


def test_another_job_under_a_used_key_is_refused_and_names_the_difference(host: Host) -> None:
    desk = SenderDesk.of(host)
    first = desk.enqueue(host, *KEY)
    refused = desk.run(*desk.enqueue_words(host, *KEY, task="something else"), "--json")
    assert refused.returncode == 2
    error = json.loads(refused.stdout)["error"]
    assert (error["code"], "payload.task" in error["message"]) == ("key_reused", True)
    assert [job.job_id for job in desk.recorded()] == [first["jobId"]]


def test_a_waiting_sender_that_is_killed_leaves_the_job_and_its_result(host: Host) -> None:
    desk = SenderDesk.of(host)
    job_id = desk.enqueue(host, task="wait until released")["jobId"]
    with started(desk, "wait", job_id):
        wait_until(lambda: host.starts == 1, "the agent has started")
    host.release()
    assert desk.read_json("wait", job_id, "--timeout", "120")["jobs"][0]["status"] == "completed"
    assert host.starts == 1
