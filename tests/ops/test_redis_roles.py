"""ops/redis/users.acl, in force at a real redis-server: each role does all of its work with it, and
nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import redis

from contracts import naming
from contracts.ids import new_job_id
from tests.support.hosts import Host, listening_host
from tests.support.redis_server import (
    ROLES,
    ROLES_FILE,
    RedisServer,
    password_of,
    refuses,
    running_redis,
)
from tests.support.sender_desk import SenderDesk
from tests.support.source_tree import PROJECT
from tests.support.witness import Witness, looking_on


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture(scope="module")
def witness(server: RedisServer) -> Iterator[Witness]:
    with looking_on(server.port, "desk", password_of("desk")) as looking:
        yield looking


@pytest.fixture(scope="module")
def host(
    server: RedisServer, witness: Witness, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Host]:
    """A listener that comes with its own role; its sender comes with the sender's."""
    extra = {"FLEET_DISPATCH_REDIS_URL": server.url_of("listener")}
    with listening_host(tmp_path_factory.mktemp("fleet"), server, extra=extra) as running:
        yield running


def denied(server: RedisServer) -> list[str]:
    """Return what the server refused to our programs for want of a right."""
    with server.client() as client:
        entries = client.acl_log()
    # The doctor tries to read the settings, and says that it may not.
    asked = [entry for entry in entries if entry["object"] != "config|get"]
    return [f"{entry['username']}: {entry['object']}" for entry in asked]


@pytest.mark.timeout(400)  # many verbs one after the other
def test_the_whole_product_runs_with_these_roles_and_uses_every_right(
    host: Host, server: RedisServer, witness: Witness
) -> None:
    with server.client() as client:
        client.acl_log_reset()
    desk = SenderDesk.of(host, server.url_of("sender"))
    first = desk.enqueue(host)["jobId"]
    lane = desk.enqueue(host, for_lane=True)["jobId"]
    waited = desk.run("wait", first, lane, "--timeout", "100", "--json", seconds=150)
    assert waited.returncode == 0, waited.stderr + waited.stdout + host.log
    assert json.loads(desk.succeed("result", first))["status"] == "completed"
    assert desk.row(first)["state"] == "completed"
    assert [row["host"] for row in desk.read_json("hosts")["hosts"]] == [host.name]
    waiting = desk.enqueue(host, task="wait until released")["jobId"]
    taken_back = desk.read_json("cancel", waiting, "--wait", "100")
    assert taken_back["jobs"][0]["state"] in ("cancelled", "cancelling"), taken_back
    desk.succeed("sweep", "--json")
    events = desk.run("events", first, "--json")
    assert events.returncode == 0, events.stderr
    desk.run("doctor", "--json")
    watching = SenderDesk.of(host, server.url_of("observer"))
    used = {role: set(seen) for role, seen in witness.commands().items()}
    with looking_on(server.port, "desk", password_of("desk")) as of_observer:
        assert [row["host"] for row in watching.read_json("hosts")["hosts"]] == [host.name]
        watching.succeed("jobs", "--json")
        watching.run("doctor", "--json")
    used["observer"] = of_observer.commands()["sender"]
    with server.client() as client:  # a look at what nobody should have written there
        client.rpush(naming.rq_list(host.queue_name), "no id")
    host.wait_for_dead_letter("bad_id")
    used["listener"] = witness.commands()["listener"]
    governing = SenderDesk.of(host, server.url_of("governor"))
    with looking_on(server.port, "desk", password_of("desk")) as of_governor:
        cap = ("--cap", "40", "--unit", "runs", "--window", "5h")
        governing.succeed("governor", "set", "claude", *cap)
        governing.succeed("governor", "list", "--json")
    used["governor"] = of_governor.commands()["governor"]
    assert denied(server) == []
    unused = {role: rights(role) - used[role] - set(_RARE[role]) for role in ROLES}
    assert unused == {role: set() for role in ROLES}
    assert {role: used[role] - rights(role) for role in ROLES} == unused


# What this story does not come to, and where it is sent from.
_READS, _POOLS = "dispatch/queue/bounded_reads.py", "dispatch/pools/scripts.py"
_BOOK = "dispatch/pools/pool_book.py"
_FIND, _RESULTS = "dispatch/queue/whereabouts.py", "dispatch/queue/result_store.py"
_DOCTOR, _TAKING = "worker/diagnosis/broker.py", "worker/sealed.py"
_EVERYBODY = {
    "select": ("dispatch/queue/clients.py", "_parse_url"),
    "info": (_DOCTOR, ".info("),
    "time": (_DOCTOR, ".time("),
    "ping": ("dispatch/queue/link.py", ".ping("),
    "lpos": (_FIND, "'LPOS'"),
    "llen": (_FIND, ".llen("),
    "lrange": (_RESULTS, ".lrange("),
    "memory|usage": (_RESULTS, ".memory_usage("),
}
_RARE: dict[str, dict[str, tuple[str, str]]] = {
    "sender": {
        **_EVERYBODY,
        "del": ("dispatch/queue/packed_jobs.py", '"DEL"'),
        "unlink": (_READS, ".unlink("),
        "lrem": (_RESULTS, ".lrem("),
        "ltrim": ("dispatch/queue/control_box.py", ".ltrim("),
        "unsubscribe": ("dispatch/queue/async_bells.py", ".unsubscribe("),
    },
    "listener": {
        **_EVERYBODY,
        "get": ("worker/broker/lane_claims.py", "'GET'"),
        "hkeys": (_READS, "'HKEYS'"),
        "hlen": (_READS, "'HLEN'"),
        "zrevrange": (_READS, "'ZREVRANGE'"),
        "zscore": (_READS, "'ZSCORE'"),
        "unlink": (_READS, ".unlink("),
        "rpop": ("worker/broker/queue_scripts.py", "'RPOP'"),
        "rpush": (_TAKING, '"RPUSH"'),
        "type": (_TAKING, ".type("),
        "unsubscribe": ("worker/broker/bells.py", "pubsub"),
        "hdel": (_POOLS, "'HDEL'"),
        "hmget": (_POOLS, "'HMGET'"),
        "hgetall": (_POOLS, "'HGETALL'"),
        "pexpire": (_POOLS, "'PEXPIRE'"),
        "pexpireat": (_POOLS, "'PEXPIREAT'"),
        "sadd": (_POOLS, "'SADD'"),
    },
    "observer": {**_EVERYBODY, "exists": (_FIND, "'EXISTS'"), "type": (_FIND, "'TYPE'")},
    "governor": {
        **{name: _EVERYBODY[name] for name in ("select", "info", "time", "ping")},
        "hget": (_POOLS, "'HGET'"),
        "hdel": (_POOLS, "'HDEL'"),
        "hmget": (_POOLS, "'HMGET'"),
        "hgetall": (_POOLS, "'HGETALL'"),
        "pexpire": (_POOLS, "'PEXPIRE'"),
        "pexpireat": (_POOLS, "'PEXPIREAT'"),
        "hkeys": (_BOOK, ".hkeys("),
        "srem": (_BOOK, ".srem("),
        "unlink": (_BOOK, ".unlink("),
    },
}


def rights(role: str) -> set[str]:
    """Return the commands that the file gives a role."""
    line = next(x for x in ROLES_FILE.read_text().splitlines() if x.split()[1] == role)
    return {word[1:] for word in line.split() if word.startswith("+")}


@pytest.mark.parametrize("role", ROLES)
def test_what_a_story_does_not_use_is_sent_from_where_the_table_says(role: str) -> None:
    assert set(_RARE[role]) <= rights(role)
    for command, (file, words) in _RARE[role].items():
        assert words in (PROJECT / file).read_text(), command


# What a role may be refused, each with what it would do.
def _forbidden(host: str, job: str) -> dict[str, list[tuple[str, ...]]]:
    result, claim, taken = naming.result_key(job), naming.claim_key(job), f"fd:taken:x:{host}"
    everybody: list[tuple[str, ...]] = [
        ("FLUSHALL",),
        ("FLUSHDB",),
        ("CONFIG", "GET", "*"),
        ("CONFIG", "SET", "dir", "/tmp"),
        ("KEYS", "*"),
        ("SCAN", "0"),
        ("MONITOR",),
        ("DEBUG", "SLEEP", "0"),
        ("SHUTDOWN",),
        ("REPLICAOF", "127.0.0.1", "1"),
        ("MODULE", "LIST"),
        ("ACL", "LIST"),
        ("CLIENT", "LIST"),
        ("CLIENT", "KILL", "TYPE", "normal"),
        ("SCRIPT", "FLUSH"),
        ("FUNCTION", "LIST"),
        ("RENAME", "fd:jobs", "fd:x"),
        ("COPY", "fd:jobs", "fd:x"),
        ("MIGRATE", "127.0.0.1", "1", "fd:jobs", "0", "10"),
        ("RESTORE", "fd:jobs", "0", "x"),
        ("SAVE",),
        ("GET", "anybody:else"),
        ("SET", "anybody:else", "x"),
        ("GETRANGE", "anybody:else", "0", "1"),
        ("PUBLISH", f"rq:pubsub:{host}", "{}"),
        ("SUBSCRIBE", "__keyspace@0__:*"),
    ]
    sender: list[tuple[str, ...]] = [
        ("EVAL", "return redis.call('DEL', KEYS[1])", "1", result),
        ("EVAL_RO", "return redis.call('GET', 'anybody:else')", "0"),
        ("SET", result, "forged"),
        ("DEL", claim),
        ("SET", naming.host_key(host), "{}"),
        ("SET", naming.farewell_key(host), "1"),
        ("ZADD", naming.hosts_index(), "1", "nobody"),
        ("LREM", taken, "0", job),
        ("LMOVE", taken, naming.rq_list("fd.lane.L"), "LEFT", "LEFT"),
    ]
    listener: list[tuple[str, ...]] = [
        ("GETRANGE", naming.receipt_key(job), "0", "-1"),
        ("SET", naming.receipt_key(job), "forged"),
        ("ZADD", naming.jobs_index(), "1", job),
        ("ZREVRANGE", naming.jobs_index(), "0", "-1"),
        ("SET", naming.data_mark(), "x"),
        ("EVAL", "return redis.call('FLUSHALL')", "0"),
        ("EVAL", "return redis.call('GET', 'anybody:else')", "0"),
    ]
    observer: list[tuple[str, ...]] = [
        *sender,
        ("SET", naming.job_key(job), "x"),
        ("HSET", naming.job_key(job), "state", "done"),
        ("HGET", f"rq:job:{job}", "data"),
        ("RPUSH", naming.rq_list("fd.lane.L"), job),
        ("PUBLISH", naming.bell_channel("fd.lane.L"), "1"),
        ("SUBSCRIBE", naming.done_channel(job)),
        ("UNLINK", naming.jobs_index()),
        ("EXPIRE", naming.jobs_index(), "1"),
    ]
    return {
        "sender": [*everybody, *sender, ("LRANGE", naming.dead_letters(), "0", "-1")],
        "listener": everybody + listener,
        "observer": [item for item in everybody + observer if item[0] != "LMOVE"],
        "governor": everybody + observer,
    }


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_refused_what_it_does_not_need(role: str, server: RedisServer) -> None:
    job = new_job_id()
    with server.client() as desk:
        desk.set(naming.claim_key(job), "HOSTA/x")
    client = redis.Redis.from_url(server.url_of(role), socket_timeout=20)
    allowed = [words for words in _forbidden("HOSTA", job)[role] if not refuses(client, *words)]
    client.close()
    assert allowed == []


def test_nobody_comes_without_a_role(server: RedisServer) -> None:
    for url in (f"redis://127.0.0.1:{server.port}/0", f"redis://:x@127.0.0.1:{server.port}/0"):
        client = redis.Redis.from_url(url, socket_timeout=20)
        with pytest.raises(redis.AuthenticationError):
            client.ping()
        client.close()


def test_the_file_lets_nobody_in_before_a_password_was_given_and_allows_nothing_wholesale() -> None:
    lines = ROLES_FILE.read_text().splitlines()
    assert [line.split()[1] for line in lines] == ["default", *ROLES]
    for line in lines:
        words = line.split()
        assert "nopass" not in words
        assert not [word for word in words if word.startswith((">", "#", "+@", "allkeys", "~"))]
        assert words[2:6] == [
            "off" if words[1] == "default" else "on", "resetpass", "resetkeys", "resetchannels",
        ]  # fmt: skip
        assert "-@all" in words


# docs/broker.md shows these in place of patterns for every host.
_NARROWER = {
    "%RW~rq:queue:fd.lane.*": "%RW~rq:queue:fd.lane.BUILD@HOSTA %RW~rq:queue:fd.lane.BUILD",
    "%RW~fd:taken:*": "%RW~fd:taken:*:HOSTA",
    "%RW~fd:host:*": "%R~fd:host:* %RW~fd:host:HOSTA",
    "%RW~fd:farewell:*": "%RW~fd:farewell:HOSTA",
    "%RW~fd:asks:*": "%RW~fd:asks:HOSTA",
}


def test_a_listener_can_be_narrowed_to_its_own_host_as_the_page_shows(server: RedisServer) -> None:
    page = (PROJECT / "docs" / "broker.md").read_text()
    words = next(x for x in ROLES_FILE.read_text().splitlines() if "user listener " in x).split()
    narrow = " ".join(_NARROWER.get(word, word) for word in words[2:]).split()
    for pattern in " ".join(_NARROWER.values()).split():
        assert f"`{pattern}`" in page
        assert pattern in narrow
    own, other = naming.host_queue("BUILD", "HOSTA"), naming.host_queue("BUILD", "HOSTB")

    def take(queue: str, host: str) -> tuple[str, ...]:
        return ("LMOVE", naming.rq_list(queue), naming.taken_list(queue, host), "LEFT", "RIGHT")

    may = [
        take(own, "HOSTA"),
        take(naming.lane_queue("BUILD"), "HOSTA"),
        ("SET", naming.host_key("HOSTA"), "{}"),
        ("GETRANGE", naming.host_key("HOSTB"), "0", "1"),
        ("DEL", naming.farewell_key("HOSTA")),
    ]
    may_not = [
        take(other, "HOSTA"),
        take(naming.lane_queue("BUILD"), "HOSTB"),
        take(naming.lane_queue("REVIEW"), "HOSTA"),
        ("SET", naming.host_key("HOSTB"), "{}"),
        ("SET", naming.farewell_key("HOSTB"), "1"),
        ("LPOP", naming.asks_list("HOSTB")),
    ]
    with server.client() as desk:
        desk.execute_command("ACL", "SETUSER", "narrow", *narrow)
        for command in may:
            assert desk.execute_command("ACL", "DRYRUN", "narrow", *command) in (b"OK", "OK")
        for command in may_not:
            assert desk.execute_command("ACL", "DRYRUN", "narrow", *command) not in (b"OK", "OK")
