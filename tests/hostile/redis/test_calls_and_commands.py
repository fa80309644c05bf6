"""Calls, commands, flags and bombs of somebody who can write Redis: each first works on a stock RQ
worker, then has no effect on a listener, and the next honest job completes."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

from rq.job import Job

from contracts.ids import new_job_id
from contracts.naming import lane_queue, rq_list
from tests.support.fleet import wait_until
from tests.support.hosts import Host
from tests.support.rq_attacks import (
    SINGING_PICKLE,
    Canary,
    json_call,
    run_stock_worker,
    stock_worker,
    write_job,
)

RSS_MAX_BYTES = 150 * 1024 * 1024


def push_with_fields(host: Host, fields: dict[str, object]) -> str:
    """Queue an honest, signed job whose RQ hash carries `fields` when it is taken."""
    parked = "parked"
    job_id = host.push(host.job(), queue=parked)
    with host.broker.client() as connection:
        connection.hset(f"rq:job:{job_id}", mapping=fields)
        connection.lmove(rq_list(parked), rq_list(host.queue_name), "RIGHT", "RIGHT")
    return job_id


def test_a_foreign_function_is_not_called(attacked: Host, canary: Canary, control: str) -> None:
    with attacked.broker.client() as connection:
        write_job(connection, control, new_job_id(), {"data": json_call("fd_canary.sing")})
        run_stock_worker(canary, attacked.broker.url, control)
        assert canary.fired() == 1
        canary.reset()
        write_job(
            connection, attacked.queue_name, new_job_id(), {"data": json_call("fd_canary.sing")}
        )
    attacked.run_honest_job()
    attacked.wait_for_dead_letter("foreign_function")
    assert canary.fired() == 0


def test_a_pickle_instead_of_a_call_is_not_loaded(
    attacked: Host, canary: Canary, control: str
) -> None:
    """K64: RQ's own default loads it."""
    with attacked.broker.client() as connection:
        for data in (zlib.compress(SINGING_PICKLE), SINGING_PICKLE):
            canary.reset()
            write_job(connection, control, new_job_id(), {"data": data})
            run_stock_worker(canary, attacked.broker.url, control, serializer="")
            assert canary.fired() >= 1
            write_job(connection, attacked.queue_name, new_job_id(), {"data": data})
    canary.reset()
    attacked.run_honest_job()
    attacked.wait_for_dead_letter("not_json")
    attacked.wait_for_dead_letter("not_packed")
    assert canary.fired() == 0


def test_a_malformed_hash_stops_a_stock_worker_and_not_the_listener(
    attacked: Host, canary: Canary, control: str
) -> None:
    bad = {"data": json_call("time.time"), "created_at": "no date at all"}
    with attacked.broker.client() as connection:
        write_job(connection, control, new_job_id(), bad)
        write_job(connection, control, new_job_id(), {"data": json_call("fd_canary.sing")})
        run_stock_worker(canary, attacked.broker.url, control)
        assert canary.fired() == 0, "the control stopped before the next job, with exit code 0"
        connection.delete(rq_list(control))

        write_job(connection, attacked.queue_name, new_job_id(), bad)
        write_job(connection, attacked.queue_name, new_job_id(), {"x": "no data"})
        connection.set(f"rq:job:{(odd := new_job_id())}", "a string, not a hash")
        ids = [odd, new_job_id(), "not an id", "x" * 100_000, b"\xff\x00", ""]
        connection.rpush(rq_list(attacked.queue_name), *ids)
    attacked.run_honest_job()
    for reason in ("foreign_function", "no_data", "not_a_hash", "bad_id"):
        attacked.wait_for_dead_letter(reason)
    with attacked.broker.client() as connection:
        taken = connection.keys("fd:taken:*")
        assert taken == [], "nothing bad stays behind"


def test_a_queue_of_another_type_does_not_stop_the_other_queues(
    attacked: Host, canary: Canary
) -> None:
    with attacked.broker.client() as connection:
        connection.set(rq_list(lane_queue("L")), "no list")
        attacked.run_honest_job()
        attacked.wait_for_dead_letter("queue_unreadable")
        connection.delete(rq_list(lane_queue("L")))


def test_a_packed_bomb_costs_no_memory(attacked: Host, canary: Canary, control: str) -> None:
    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(b" " * 1_000_000) for _ in range(500)) + packer.flush()
    assert len(bomb) < 1_000_000
    with attacked.broker.client() as connection:
        write_job(connection, control, new_job_id(), {"data": bomb})
        peak_mb = int(run_stock_worker(canary, attacked.broker.url, control).split()[-1])
        assert peak_mb > 450, "the control must swell"
        for _ in range(3):
            write_job(connection, attacked.queue_name, new_job_id(), {"data": bomb})
        write_job(connection, attacked.queue_name, new_job_id(), {"data": b"\0" * 30_000_000})
    attacked.run_honest_job()
    attacked.wait_for_dead_letter("too_large")
    assert attacked.process is not None
    status = Path(f"/proc/{attacked.process.pid}/status").read_text()
    peak_kb = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    assert int(peak_kb) * 1024 < RSS_MAX_BYTES


def test_commands_over_pubsub_stop_a_stock_worker_and_reach_no_listener(
    attacked: Host, canary: Canary, control: str
) -> None:
    command = json.dumps({"command": "shutdown"})
    with attacked.broker.client() as connection:
        with stock_worker(canary, attacked.broker.url, control, kind="forking") as process:
            wait_until(
                lambda: (
                    connection.publish(f"rq:pubsub:stock-{control}", command) > 0
                    or process.poll() is not None
                ),
                "the control hears the command",
            )
            process.wait(30)
        channels = [name for name in connection.pubsub_channels("*") if name.startswith(b"rq:")]
        assert channels == [], "the listener hears no command of RQ's"
        assert connection.pubsub_numpat() == 0
    attacked.run_honest_job()


def test_a_stop_command_runs_the_stopped_callback_of_a_stock_worker_alone(
    attacked: Host, canary: Canary, control: str
) -> None:
    job_id = new_job_id()
    fields = {"data": json_call("fd_canary.wait"), "stopped_callback_name": "fd_canary.sing"}
    with attacked.broker.client() as connection:
        write_job(connection, control, job_id, fields)
        stop = json.dumps({"command": "stop-job", "job_id": job_id})
        with stock_worker(canary, attacked.broker.url, control, kind="forking"):
            wait_until(
                lambda: connection.hget(f"rq:job:{job_id}", "status") == b"started",
                "the control's job has started",
            )
            wait_until(
                lambda: (
                    bool(connection.publish(f"rq:pubsub:stock-{control}", stop))
                    and canary.fired() > 0
                ),
                "the control's callback fires",
            )
        canary.reset()
        waiting = push_with_fields(attacked, {"stopped_callback_name": "fd_canary.sing"})
        stop = json.dumps({"command": "stop-job", "job_id": waiting})
        for name in (f"{attacked.name}.{attacked.queue_name}", attacked.name):
            assert connection.publish(f"rq:pubsub:{name}", stop) == 0
    assert attacked.result(waiting).status == "completed"
    assert canary.fired() == 0


def test_the_suspension_flag_stops_a_stock_worker_and_not_the_listener(
    attacked: Host, canary: Canary, control: str
) -> None:
    with attacked.broker.client() as connection:
        connection.set("rq:suspended", 1)
        write_job(connection, control, new_job_id(), {"data": json_call("fd_canary.sing")})
        run_stock_worker(canary, attacked.broker.url, control)
        assert canary.fired() == 0, "the control stands still"
        attacked.run_honest_job()
        connection.delete("rq:suspended", rq_list(control))


def test_an_honest_hash_reads_as_finished_for_rqs_own_tools(attacked: Host, canary: Canary) -> None:
    job_id = attacked.push(attacked.job())
    attacked.result(job_id)
    with attacked.broker.client() as connection:
        wait_until(
            lambda: Job.fetch(job_id, connection=connection, serializer="json").is_finished,
            "RQ's hash says finished",
        )
        assert 0 < connection.ttl(f"rq:job:{job_id}") <= 600
