"""Words in our own keys and channels, forged by somebody who can write Redis: results, heartbeats,
farewells, claims, refusals, bells. A sender believes none, a listener does nothing but look."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contracts import naming
from contracts.clock import SystemClock
from contracts.envelope import JOB_TYPE, RESULT_TYPE, open_envelope, seal
from contracts.errors import WaitTimedOut
from contracts.ids import new_job_id
from dispatch.client import FleetClient
from dispatch.key_store import create_sender
from dispatch.settings import load_settings
from tests.support.desk import peak_bytes
from tests.support.fleet import wait_until
from tests.support.hosts import LANE, Host, Sender
from tests.support.rq_attacks import Canary
from tests.support.sender_desk import SenderDesk

RSS_MAX_BYTES = 150_000_000


@pytest.fixture
def desk(attacked: Host, canary: Canary) -> Iterator[SenderDesk]:
    yield SenderDesk.of(attacked)
    assert canary.fired() == 0


def stored(host: Host, job_id: str) -> str:
    text = host.stored(job_id)
    assert text is not None
    return text.decode()


def altered(host: Host, mine: str, other: str) -> str:
    outer = json.loads(stored(host, mine))
    outer["payload"] = json.loads(stored(host, other))["payload"]
    return json.dumps(outer)


def of_a_stranger(host: Host, mine: str, _other: str) -> str:
    keys = host.home / f"stranger-{new_job_id()}"
    create_sender(keys, host.sender.name, SystemClock())
    opened = open_envelope(stored(host, mine), host.sender.keyring, RESULT_TYPE)
    signers = Sender(keys, host.sender.name).keyring.job_signers(host.aud)
    return seal(opened.payload, RESULT_TYPE, signers)


def signed_as_a_job(host: Host, mine: str, _other: str) -> str:
    opened = open_envelope(stored(host, mine), host.sender.keyring, RESULT_TYPE)
    return seal(opened.payload, JOB_TYPE, host.sender.keyring.job_signers(host.aud))


def with_a_job_key(host: Host, mine: str, _other: str) -> str:
    """What a thief of the host's job key can do: it checks jobs, and signs no result."""
    opened = open_envelope(stored(host, mine), host.sender.keyring, RESULT_TYPE)
    return seal(opened.payload, RESULT_TYPE, host.sender.keyring.job_signers(host.aud))


FORGED_RESULTS: dict[str, Callable[[Host, str, str], str]] = {
    "of another job": lambda host, _mine, other: stored(host, other),
    "altered": altered,
    "of a stranger": of_a_stranger,
    "with the key of jobs": with_a_job_key,
    "of another type": signed_as_a_job,
    "no envelope": lambda _host, _mine, _other: '{"status": "completed"}',
    "empty": lambda _host, _mine, _other: "",
    "thirty megabytes": lambda _host, _mine, _other: "x" * 30_000_000,
}


def test_a_forged_result_is_believed_by_nobody_and_the_real_one_is_found_beside_it(
    attacked: Host, desk: SenderDesk
) -> None:
    """The control is the honest result, which the same client takes at once."""
    settings = load_settings(environ=desk.environment)
    with FleetClient.open(settings) as sender, attacked.broker.client() as client:
        handles = [
            sender.enqueue(attacked.payload(), lane=LANE, targets=[attacked.name])[0]
            for _ in range(2)
        ]
        mine, other = (handle.job_id for handle in handles)
        for job_id in (mine, other):
            attacked.published_result(job_id)
        honest = stored(attacked, mine)
        forged = {name: make(attacked, mine, other) for name, make in FORGED_RESULTS.items()}
        for name, text in forged.items():
            client.set(naming.result_key(mine), text)
            client.publish(naming.done_channel(mine), b"1")
            assert sender.result(mine) is None, name
            with pytest.raises(WaitTimedOut):
                sender.wait(mine, timeout_s=0.2)
        client.set(naming.result_key(mine), forged["of another job"])
        client.rpush(naming.other_results_key(mine), forged["altered"], honest)
        client.set(naming.result_key(other), honest)
        assert sender.result(other) is None, "no result is moved from one job to another"
        found = sender.wait(mine, timeout_s=60)
        assert found.job_id == mine
        assert found.status == "completed"


def test_a_host_that_was_made_up_is_shown_as_words_and_takes_no_job(
    attacked: Host, desk: SenderDesk
) -> None:
    made_up = {
        "host": "EVIL", "lanes": [LANE], "slots": 99, "free": 99, "os": "\x1b[2J\u202e",
        "agents": {"codex": "\x1b]0;owned\x07"}, "seenAt": int(time.time()), "pid": 1,
        "instance": "x", "jobs": [new_job_id()], "version": "<script>", "contractRevision": 99,
        "unheard": {"of": ["\x1b"]},
    }  # fmt: skip
    with attacked.broker.client() as client:
        client.set(naming.host_key("EVIL"), json.dumps(made_up))
        client.zadd(naming.hosts_index(), {"EVIL": time.time(), "../../x": time.time()})
        client.set(naming.farewell_key(attacked.name), str(int(time.time()) + 10**6))
        shown = desk.run("hosts")
        assert shown.returncode == 0, shown.stderr
        assert "\x1b" not in shown.stdout + shown.stderr
        assert "\u202e" not in shown.stdout
        assert "../../x" not in shown.stdout
        job_id = desk.enqueue(attacked, for_lane=True)["jobId"]
        assert attacked.result(job_id).status == "completed"
        client.delete(naming.host_key("EVIL"))
        client.zrem(naming.hosts_index(), "EVIL", "../../x")


def test_a_forged_claim_delays_a_job_and_ends_with_it(attacked: Host, desk: SenderDesk) -> None:
    """The worst that a writer can do to a job without deleting it: nobody starts it meanwhile."""
    claims = attacked.job()
    with attacked.broker.client() as client:
        client.set(naming.claim_key(claims["jti"]), "EVIL/instance")
        starts = attacked.starts
        attacked.push(claims)
        attacked.run_honest_job()
        assert attacked.starts == starts + 1
        client.delete(naming.claim_key(claims["jti"]), naming.job_key(claims["jti"]))
        attacked.push(claims)
    assert attacked.result(claims["jti"]).status == "completed"
    attacked.run_honest_job()


def test_forged_refusals_and_shown_states_end_no_job(attacked: Host, desk: SenderDesk) -> None:
    job_id = attacked.push(attacked.job(aud=naming.lane_audience(LANE)), queue="parked")
    shown = {"state": "done", "host": "EVIL", "reason": "\x1b[2J", "repo": "\x1b[2J"}
    with attacked.broker.client() as client:
        client.hset(naming.refusals_key(job_id), mapping={"EVIL": "no", "H\x1b": "no"})
        client.hset(naming.job_key(job_id), mapping=shown)
        client.zadd(naming.jobs_index(), {job_id: time.time() + 10**6, "../x": time.time()})
        listed = desk.run("jobs")
        assert listed.returncode == 0, listed.stderr
        assert "\x1b" not in listed.stdout + listed.stderr
        assert "completed" not in next(
            (line for line in listed.stdout.splitlines() if job_id in line), ""
        )
        lane = naming.rq_list(naming.lane_queue(LANE))
        client.lmove(naming.rq_list("parked"), lane, "LEFT", "RIGHT")
    assert attacked.result(job_id).status == "completed"


def test_jobs_that_were_swapped_moved_or_altered_are_dead_letters_and_never_start(
    attacked: Host, desk: SenderDesk
) -> None:
    one, two = (attacked.push(attacked.job(), queue="parked") for _ in range(2))
    elsewhere = attacked.job(aud=naming.lane_audience(LANE))
    moved = attacked.push(elsewhere, queue="parked")
    starts = attacked.starts
    with attacked.broker.client() as client:
        client.delete(naming.dead_letters())  # another test may have filled it to its bound
        first, second = (client.hget(f"rq:job:{job}", "data") for job in (one, two))
        client.hset(f"rq:job:{one}", "data", second)
        client.hset(f"rq:job:{two}", "data", first)
        queue = naming.rq_list(attacked.queue_name)
        client.delete(naming.rq_list("parked"))
        client.rpush(queue, one, two)
        wait_until(lambda: len(attacked.dead_letters()) >= 2, "both are buried", 60)
        reasons = {letter["reason"] for letter in attacked.dead_letters()[:2]}
        assert reasons == {"moved"}
        assert attacked.starts == starts
        client.hset(f"rq:job:{one}", "data", first)
        client.hset(f"rq:job:{two}", "data", second)
        client.rpush(queue, one, two, moved)
    for job_id in (one, two, moved):
        assert attacked.result(job_id).status == "completed"
    assert attacked.starts == starts + 3


def channels_of(host: Host) -> list[str]:
    names = [naming.bell_channel(host.queue_name), naming.bell_channel(naming.lane_queue(LANE))]
    return [*names, naming.done_channel(new_job_id()), naming.control_channel(host.name)]


def test_channels_wake_and_carry_nothing_whatever_is_said_in_them(
    attacked: Host, canary: Canary
) -> None:
    words = [
        b"", b"1", b"\xff\xfe", b'{"command": "shutdown"}', b"cfd_canary\nsing\n(tR.",
        b"x" * 5_000_000, json.dumps(["fd_canary.sing", None, [], {}]).encode(),
    ]  # fmt: skip
    with attacked.broker.client() as client:
        for _ in range(3):
            for channel in channels_of(attacked):
                for text in words:
                    client.publish(channel, text)
    attacked.run_honest_job()
    assert canary.fired() == 0
    assert attacked.process is not None
    assert attacked.process.poll() is None
    assert peak_bytes(attacked.process.pid) < RSS_MAX_BYTES


def test_huge_hashes_and_endless_indexes_cost_a_listener_no_memory(
    attacked: Host, desk: SenderDesk, tmp_path: Path
) -> None:
    fill = """
    for i = 1, tonumber(ARGV[2]) do
        if ARGV[1] == 'zset' then redis.call('ZADD', KEYS[1], i, string.format('%020d', i))
        elseif ARGV[1] == 'list' then redis.call('RPUSH', KEYS[1], string.rep('x', 100))
        else redis.call('HSET', KEYS[1], 'field' .. i, string.rep('x', 100)) end
    end
    """
    job_id = attacked.push(attacked.job(), queue="parked")
    with attacked.broker.client() as client:
        client.eval(fill, 1, f"rq:job:{job_id}", "hash", "50000")
        client.eval(fill, 1, naming.job_key(job_id), "hash", "50000")
        client.eval(fill, 1, naming.dead_letters(), "list", "100000")
        for index in (naming.hosts_index(), naming.jobs_index()):
            client.eval(fill, 1, index, "zset", "50000")
        client.hset(f"rq:job:{job_id}", "description", "x" * 60_000_000)
        queue = naming.rq_list(attacked.queue_name)
        client.rpush(queue, *["no id"] * 500)
        client.lmove(naming.rq_list("parked"), queue, "LEFT", "RIGHT")
        assert attacked.result(job_id, seconds=90).status == "completed"
        wait_until(lambda: client.llen(naming.dead_letters()) <= 1_000, "letters are bounded")
        for words in (("hosts",), ("jobs",)):
            assert desk.run(*words).returncode == 0
        client.delete(naming.hosts_index(), naming.jobs_index(), f"rq:job:{job_id}")
    assert attacked.process is not None
    assert peak_bytes(attacked.process.pid) < RSS_MAX_BYTES
