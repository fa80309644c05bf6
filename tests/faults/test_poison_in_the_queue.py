"""Poison in the queue: what can be no job of ours is buried with a reason; the next good job runs
and the listener stays small."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable

import pytest
import redis

from contracts import naming
from contracts.ids import new_job_id
from tests.support.desk import peak_bytes
from tests.support.hosts import Host
from tests.support.rq_attacks import json_call, write_job

RSS_MAX_BYTES = 150_000_000


def call(text: str) -> bytes:
    """Return the packed call of our own entry with `text` as its envelope."""
    return json_call(naming.ENTRY_PATH, text)


def bomb() -> bytes:
    """Return half a megabyte that unpacks to 500."""
    packer = zlib.compressobj(9)
    return b"".join(packer.compress(b" " * 1_000_000) for _ in range(500)) + packer.flush()


def envelope(payload: bytes) -> str:
    """Return a whole envelope whose one signature is nobody's."""
    mac = base64.b64encode(b"\0" * 32).decode()
    return json.dumps(
        {
            "v": 1,
            "payloadType": "application/vnd.fleet-dispatch.job.v1+json",
            "payload": base64.b64encode(payload).decode(),
            "sigs": [{"kid": "nobody", "mac": mac}],
        }
    )


def write_data(data: bytes) -> Callable[[Host, redis.Redis], None]:
    def write(host: Host, connection: redis.Redis) -> None:
        write_job(connection, host.queue_name, new_job_id(), {"data": data})

    return write


def write_string_for_a_hash(host: Host, connection: redis.Redis) -> None:
    job_id = new_job_id()
    connection.set(f"rq:job:{job_id}", "no hash")
    connection.rpush(naming.rq_list(host.queue_name), job_id)


def write_a_time_that_is_none(host: Host, connection: redis.Redis) -> None:
    fields = {"data": call("{}"), "created_at": "yesterday", "timeout": "soon", "status": "?"}
    write_job(connection, host.queue_name, new_job_id(), fields)


def write_an_id_without_a_hash(host: Host, connection: redis.Redis) -> None:
    connection.rpush(naming.rq_list(host.queue_name), new_job_id())


def write_what_is_no_id(host: Host, connection: redis.Redis) -> None:
    connection.rpush(naming.rq_list(host.queue_name), "../../etc/passwd\n" * 100)


def write_another_jobs_envelope(host: Host, connection: redis.Redis) -> None:
    data = call(host.sender.sign(host.job()))
    write_job(connection, host.queue_name, new_job_id(), {"data": data})


# name -> how it is written, and the reason that stands beside it afterwards
POISONS: dict[str, tuple[Callable[[Host, redis.Redis], None], str]] = {
    "an envelope that is no JSON": (write_data(call("\x00\xff not json")), "malformed"),
    "an envelope with nobody's signature": (write_data(call(envelope(b"{}"))), "unknown_key"),
    "an honest envelope under another id": (write_another_jobs_envelope, "moved"),
    "a call that is no JSON": (write_data(zlib.compress(b"]]no json")), "not_json"),
    "bytes that are not packed": (write_data(b"plainly not zlib"), "not_packed"),
    "a bomb": (write_data(bomb()), "too_large"),
    "thirty megabytes": (write_data(b"\0" * 30_000_000), "too_large"),
    "a hash that is a string": (write_string_for_a_hash, "not_a_hash"),
    "a hash whose fields are nonsense": (write_a_time_that_is_none, "malformed"),
    "an id without a hash": (write_an_id_without_a_hash, "no_data"),
    "what is no id": (write_what_is_no_id, "bad_id"),
}


def reasons(host: Host) -> list[str]:
    return [letter["reason"] for letter in host.dead_letters()]


@pytest.mark.parametrize("name", POISONS)
def test_poison_is_buried_and_the_next_good_job_runs(name: str, host: Host) -> None:
    write, reason = POISONS[name]
    with host.broker.client() as connection:
        write(host, connection)
    host.run_honest_job()
    assert reasons(host) == [reason]
    assert f"buried queue={host.queue_name} reason={reason}" in host.log
    assert host.starts == 1, "nothing of it ran"
    assert host.process is not None
    assert peak_bytes(host.process.pid) < RSS_MAX_BYTES


def test_all_of_it_together_costs_no_good_job_and_no_memory(host: Host) -> None:
    jobs = []
    with host.broker.client() as connection:
        for write, _ in POISONS.values():
            write(host, connection)
            jobs.append(host.push(host.job()))
    for job_id in jobs:
        assert host.result(job_id).status == "completed"
    assert sorted(reasons(host)) == sorted(reason for _, reason in POISONS.values())
    assert host.starts == len(jobs)
    assert host.process is not None
    assert peak_bytes(host.process.pid) < RSS_MAX_BYTES
