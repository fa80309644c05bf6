"""RQ's registries, lists and marks, forged before a listener starts and while it runs: stock RQ
acts on some of them, a listener on none."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from contracts.ids import new_job_id
from contracts.naming import host_queue, lane_queue, rq_list
from tests.support.broker import Broker
from tests.support.fleet import wait_until
from tests.support.hosts import LANE, listening_host
from tests.support.rq_attacks import Canary, json_call, run_stock, write_job

LONG_AGO = time.time() - 86_400


def _forge_job(connection: redis.Redis, queue: str, tag: str, **fields: Any) -> str:
    job_id = new_job_id()
    call = json_call(f"fd_canary.sing_{tag}")
    write_job(connection, queue, job_id, {"data": call, **fields}, push=False)
    return job_id


def started(connection: redis.Redis, queue: str) -> None:
    job_id = _forge_job(
        connection, queue, "no", status="started", failure_callback_name="fd_canary.sing_started"
    )
    connection.zadd(f"rq:wip:{queue}", {f"{job_id}:{new_job_id()}": 1})


def intermediate(connection: redis.Redis, queue: str) -> None:
    job_id = _forge_job(
        connection, queue, "no", failure_callback_name="fd_canary.sing_intermediate"
    )
    connection.rpush(f"rq:queue:{queue}:intermediate", job_id)
    connection.set(f"rq:queue:{queue}:intermediate:first_seen:{job_id}", LONG_AGO)


def ready(connection: redis.Redis, queue: str) -> None:
    job_id = _forge_job(connection, queue, "ready", status="ready_to_enqueue")
    connection.zadd(f"rq:ready:{queue}", {job_id: LONG_AGO})


def scheduled(connection: redis.Redis, queue: str) -> None:
    job_id = _forge_job(connection, queue, "scheduled", status="scheduled")
    connection.zadd(f"rq:scheduled:{queue}", {job_id: LONG_AGO})


def _in_registry(name: str) -> Callable[[redis.Redis, str], None]:
    def forge(connection: redis.Redis, queue: str) -> None:
        hooks = {"failure_callback_name": f"fd_canary.sing_{name}", "retries_left": "3"}
        job_id = _forge_job(connection, queue, name, status=name, **hooks)
        connection.zadd(f"rq:{name}:{queue}", {job_id: 1})

    return forge


def workers(connection: redis.Redis, queue: str) -> None:
    """A worker that is long dead, and claims what is forged elsewhere here."""
    key = f"rq:worker:dead-{queue}"
    connection.sadd("rq:workers", key)
    connection.sadd(f"rq:workers:{queue}", key)
    connection.hset(key, mapping={"birth": "1", "queues": queue, "current_job": new_job_id()})


def group(connection: redis.Redis, queue: str) -> None:
    connection.sadd("rq:groups", f"rq:group:{queue}")
    connection.sadd(f"rq:group:{queue}", _forge_job(connection, queue, "group"))


# What is forged, and whether it makes stock RQ run something.
FORGERIES: dict[str, tuple[Callable[[redis.Redis, str], None], bool]] = {
    "started": (started, True),
    "intermediate": (intermediate, False),  # it marks the job as failed, and runs nothing
    "ready": (ready, True),
    "scheduled": (scheduled, True),
    "finished": (_in_registry("finished"), False),
    "failed": (_in_registry("failed"), False),
    "deferred": (_in_registry("deferred"), False),
    "canceled": (_in_registry("canceled"), False),
    "workers": (workers, False),
    "group": (group, False),
}


def everything_of_rq(connection: redis.Redis, queues: tuple[str, ...]) -> dict[str, Any]:
    """Return what stands at RQ's keys, those of jobs and of queues left out."""
    found = {}
    for key in sorted(connection.keys("rq:*")):
        name = key.decode()
        if name in {"rq:queues", *map(rq_list, queues)} or name.startswith("rq:job:"):
            continue
        found[name] = connection.dump(name)
    return found


def test_what_stands_in_rqs_registries_moves_stock_rq_as_the_table_says_and_a_listener_never(
    broker: Broker, tmp_path: Path, canary: Canary, control: str
) -> None:
    queues = (host_queue(LANE, "HOSTA"), lane_queue(LANE))
    with broker.client() as connection:
        for forge, _ in FORGERIES.values():
            forge(connection, control)
        url = broker.url
        # Its maintenance and its scheduler: then what those brought into the queue.
        run_stock(canary, url, control, kind="scheduling")
        run_stock(canary, url, control)
        fires = {name for name, (_, fires) in FORGERIES.items() if fires}
        assert set(canary.tags()) == fires
        canary.reset()
        connection.flushall()

        for queue in queues:
            for forge, _ in FORGERIES.values():
                forge(connection, queue)
        before = everything_of_rq(connection, queues)
        assert len(before) > 15
        with listening_host(tmp_path, broker, extra=canary.environment) as host:
            host.run_honest_job()
            assert everything_of_rq(connection, queues) == before, "at its start"
            for queue in queues:
                for forge, _ in FORGERIES.values():
                    forge(connection, queue)
            before = everything_of_rq(connection, queues)
            wait_until(lambda: connection.exists(f"fd:host:{host.name}") == 1, "a heartbeat")
            host.run_honest_job()
            assert everything_of_rq(connection, queues) == before, "while it ran"
            assert host.starts == 2
        assert canary.fired() == 0


@pytest.mark.parametrize("command", ["shutdown", "kill-horse", "stop-job"])
def test_no_command_of_rq_has_a_hearer_in_a_listener(command: str, attacked, canary) -> None:
    job_id = attacked.push(attacked.job())
    text = json.dumps({"command": command, "job_id": job_id})
    names = (attacked.name, attacked.queue_name, f"{attacked.name}.{attacked.queue_name}")
    with attacked.broker.client() as connection:
        for name in names:
            assert connection.publish(f"rq:pubsub:{name}", text) == 0
    assert attacked.result(job_id).status == "completed"
