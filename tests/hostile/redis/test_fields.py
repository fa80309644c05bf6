"""Every unsigned field of an RQ job: what it does to a stock worker, as the table says, and that it
does nothing to a listener."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

import pytest
from rq.job import Job

from contracts.ids import new_job_id
from contracts.naming import rq_list
from contracts.run_agent import RunAgentResult
from tests.support.desk import peak_bytes
from tests.support.hosts import Host
from tests.support.rq_attacks import (
    ESCAPES,
    FIELD_ATTACKS,
    Canary,
    FieldAttack,
    Stock,
    json_call,
    pickle_call,
    run_stock,
    write_job,
)

RSS_MAX_BYTES = 150_000_000


@dataclass(frozen=True)
class Control:
    """What stock workers did with one job for each attack, each in a queue of its own."""

    tags: Counter[str]
    statuses: dict[str, bytes | None]
    logged: str
    peak_mb: int


@pytest.fixture(scope="module")
def control(shared: tuple[Host, Canary]) -> Control:
    host, canary = shared
    url, run = host.broker.url, new_job_id()
    canary.reset()
    ids = {attack.name: new_job_id() for attack in FIELD_ATTACKS}
    with host.broker.client() as connection:
        for attack in FIELD_ATTACKS:
            call = json_call if attack.serializer else pickle_call
            fields = {"data": call(attack.function), **attack.fields(canary)}
            queue = f"control-{run}-{attack.name}"
            write_job(connection, queue, ids[attack.name], fields)
            if attack.stock is Stock.STOPS:
                behind = {"data": json_call(f"fd_canary.sing_{attack.name}")}
                write_job(connection, queue, new_job_id(), behind)
        logged, peak_mb = "", 0
        for serializer in ("json", ""):
            chosen = [a for a in FIELD_ATTACKS if a.serializer == serializer]
            queues = ",".join(f"control-{run}-{attack.name}" for attack in chosen)
            printed, log = run_stock(canary, url, queues, serializer=serializer)
            logged, peak_mb = logged + log + printed, max(peak_mb, int(printed.split()[-1]))
        statuses = {
            name: connection.hget(f"rq:job:{job_id}", "status") for name, job_id in ids.items()
        }
    tags = canary.tags()
    canary.reset()
    return Control(tags, statuses, logged, peak_mb)


@pytest.mark.parametrize("attack", FIELD_ATTACKS, ids=str)
def test_an_unsigned_field_does_to_stock_rq_what_the_table_says(
    attack: FieldAttack, control: Control
) -> None:
    fired = control.tags[attack.name]
    if attack.stock is Stock.FIRES:
        assert fired >= attack.least
    elif attack.stock is Stock.STOPS:
        assert fired == 0, "the job behind it was never run"
    elif attack.stock is Stock.ENDS:
        assert control.statuses[attack.name] == b"failed"
    elif attack.stock is Stock.SWELLS:
        assert control.peak_mb > 450
    elif attack.stock is Stock.SHOWS:
        assert ESCAPES in control.logged
    else:
        assert fired == 1, "it ran as if nothing was"


@dataclass(frozen=True)
class Answered:
    """What the listener answered to one honest job for each attack, and what it did beside it."""

    results: dict[str, RunAgentResult]
    starts: int
    fired: Counter[str]
    log: str


@pytest.fixture(scope="module")
def answered(shared: tuple[Host, Canary], control: Control) -> Answered:
    host, canary = shared
    starts, jobs = host.starts, {}
    canary.reset()
    with host.broker.client() as connection:
        for attack in FIELD_ATTACKS:
            repo = {} if attack.needs_success else {"repo": "/nowhere"}
            job_id = host.push(host.job(payload=host.payload(**repo)), queue="parked")
            connection.hset(f"rq:job:{job_id}", mapping=attack.fields(canary))
            jobs[attack.name] = job_id
        together = host.push(host.job(), queue="parked")
        for attack in FIELD_ATTACKS:
            connection.hset(f"rq:job:{together}", mapping=attack.fields(canary))
        jobs["all of them"] = together
        while connection.lmove(rq_list("parked"), rq_list(host.queue_name), "LEFT", "RIGHT"):
            pass
    results = {name: host.result(job_id) for name, job_id in jobs.items()}
    return Answered(results, host.starts - starts, canary.tags(), host.log)


@pytest.mark.parametrize("attack", FIELD_ATTACKS, ids=str)
def test_an_unsigned_field_beside_an_honest_job_does_nothing_here(
    attack: FieldAttack, answered: Answered
) -> None:
    result = answered.results[attack.name]
    assert result.status == ("completed" if attack.needs_success else "failed")
    assert answered.fired == Counter()


def test_all_fields_at_once_change_nothing_and_no_job_ran_twice(
    answered: Answered, attacked: Host, canary: Canary
) -> None:
    assert answered.results["all of them"].status == "completed"
    assert answered.starts == 1 + sum(attack.needs_success for attack in FIELD_ATTACKS)
    assert ESCAPES not in answered.log
    assert "\x1b" not in answered.log
    attacked.run_honest_job()
    assert canary.fired() == 0
    assert attacked.process is not None
    assert peak_bytes(attacked.process.pid) < RSS_MAX_BYTES


def test_forged_dependents_of_a_finished_job_are_run_by_stock_rq_alone(
    attacked: Host, canary: Canary
) -> None:
    def forge(connection, queue: str, first: str) -> str:
        second = new_job_id()
        fields = {
            "data": json_call("fd_canary.sing_dependents"),
            "status": "deferred",
            "dependency_ids": json.dumps([first]),
        }
        write_job(connection, queue, second, fields, push=False)
        connection.sadd(f"rq:job:{first}:dependents", second)
        connection.sadd(f"rq:job:{second}:dependencies", first)
        return second

    control = f"control-{new_job_id()}"
    with attacked.broker.client() as connection:
        first = new_job_id()
        write_job(connection, control, first, {"data": json_call("time.time")})
        forge(connection, control, first)
        run_stock(canary, attacked.broker.url, control)
        assert canary.tags() == {"dependents": 1}
        canary.reset()
        claims = attacked.job()
        second = forge(connection, attacked.queue_name, claims["jti"])
        attacked.result(attacked.push(claims))
        attacked.run_honest_job()
        assert Job.fetch(second, connection=connection, serializer="json").is_deferred
    assert canary.fired() == 0
