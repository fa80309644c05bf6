"""The events of a queued job at its sender: all of them, in order, whatever the broker lost or
somebody put there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from contracts import naming
from contracts.clock import SystemClock
from contracts.events import JobEvent
from dispatch.events import EventFeed
from dispatch.queue import FleetQueue
from dispatch.sent import SentJob
from tests.support.fleet import place_program, wait_until
from tests.support.hosts import LANE, Host

# Says as many things as the task's last word asks for, and does a little.
AGENT = """
import json, sys
if "--version" in sys.argv:
    sys.exit()
say = lambda event: print(json.dumps(event), flush=True)
count = int(sys.stdin.read().split()[-1])
say({"type": "thread.started", "thread_id": "t-1"})
for number in range(count):
    say({"type": "item.completed", "item": {"type": "agent_message", "text": f"said {number}"}})
say({"type": "a kind from the future"})
open("made.txt", "w").write("x")
say({"type": "turn.completed", "usage": {"input_tokens": 7, "output_tokens": 3}})
"""


@pytest.fixture
def talker(host: Host) -> Host:
    place_program(host.home / "bin", "codex", AGENT)
    return host


def send(host: Host, count: int) -> SentJob:
    claims = host.job(payload=host.payload(task=f"say {count}"))
    envelope = host.sender.sign(claims)
    job_id = host.push(claims, envelope=envelope)
    facts = json.loads(_payload_of(envelope))
    return SentJob(
        job_id=job_id,
        aud=facts["aud"],
        lane=LANE,
        kind="run_agent",
        queue_name=host.queue_name,
        sha256=_sha_of(envelope),
        iat=0,
        exp=2**40,
        agent="codex",
        ticket="T-1",
        repo=str(host.repo),
        mode="build",
        envelope="",
    )


def _payload_of(envelope: str) -> bytes:
    import base64

    return base64.b64decode(json.loads(envelope)["payload"])


def _sha_of(envelope: str) -> str:
    import hashlib

    return hashlib.sha256(_payload_of(envelope)).hexdigest()


def feed_of(host: Host, sent: SentJob, from_seq: int = 1) -> EventFeed:
    queue = FleetQueue.connect(host.broker.url)
    return EventFeed(queue, host.sender.keyring, sent, SystemClock(), from_seq=from_seq)


def read_all(feed: EventFeed) -> list[JobEvent]:
    found: list[JobEvent] = []

    def is_over() -> bool:
        found.extend(feed.read())
        return feed.has_ended

    wait_until(is_over, f"the last event, not only {len(found)}", 90)
    return found


def logged(host: Host, job_id: str) -> list[dict[str, Any]]:
    path = host.fleet_home / "state" / "runs" / job_id / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_sender_reads_every_event_of_its_job_in_order_and_sees_what_others_put_there(
    talker: Host, tmp_path: Path
) -> None:
    sent = send(talker, 300)
    result = talker.result(sent.job_id)
    assert (result.status, result.sessionId, result.unknown_events) == ("completed", "t-1", 1)
    assert (result.usage.input, result.usage.output) == (7, 3)
    events = read_all(feed_of(talker, sent))
    assert [event.model_dump() for event in events] == logged(talker, sent.job_id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [event.text for event in events if event.kind == "text"] == [
        f"said {number}" for number in range(300)
    ]
    assert events[-1].data["status"] == "completed"
    assert events[-1].data["unknownEvents"] == 1

    # From any number on.
    later = read_all(feed_of(talker, sent, 200))
    assert [event.seq for event in later] == list(range(200, len(events) + 1))

    # Another job's batches, a changed one, one that says nothing of ours, and the same ones again
    # in another order: nothing of it is shown, and what is no honest batch is told.
    other = send(talker, 3)
    assert talker.result(other.job_id).status == "completed"
    read_all(feed_of(talker, other))
    key, foreign = naming.events_stream(sent.job_id), naming.events_stream(other.job_id)
    with talker.broker.client() as connection:
        honest = [fields[b"e"] for _, fields in connection.xrange(key)]
        connection.delete(key)
        connection.xadd(key, {"e": connection.xrange(foreign)[0][1][b"e"]})
        connection.xadd(key, {"e": honest[0].replace(b'"mac":"', b'"mac":"AAAA')})
        connection.xadd(key, {"e": b"\xff" * 100, "f": b"x"})
        for text in [*reversed(honest), *honest]:
            connection.xadd(key, {"e": text})
    feed = feed_of(talker, sent)
    assert [event.model_dump() for event in read_all(feed)] == logged(talker, sent.job_id)
    assert len(feed.notes) == 3

    # What the broker lost, the host is asked for: the beginning, and then all of it.
    for lost in (1, len(honest)):
        with talker.broker.client() as connection:
            connection.delete(key)
            for text in honest[lost:]:
                connection.xadd(key, {"e": text})
        feed = feed_of(talker, sent)
        assert feed.read() == []
        assert feed.ask()
        assert [event.model_dump() for event in read_all(feed)] == logged(talker, sent.job_id)

    # The verb on the host reads the log itself.
    words = ("events", sent.job_id, "--local", "--json", "--from", "10")
    done = subprocess.run(
        [sys.executable, "-P", "-c", "from dispatch.cli import main; main()", *words],
        env=talker.environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = [json.loads(line)["seq"] for line in done.stdout.splitlines()]
    assert shown == list(range(10, len(events) + 1))


def test_a_run_that_dies_leaves_a_log_with_an_end(talker: Host) -> None:
    place_program(
        talker.home / "bin",
        "codex",
        "import sys, time\nif '--version' in sys.argv: sys.exit()\n"
        "open('started', 'w')\nprint('{}', flush=True)\ntime.sleep(600)\n",
    )
    claims = talker.job()
    job_id = talker.push(claims)
    folder = talker.fleet_home / "state" / "runs" / job_id
    wait_until(lambda: bool(talker.run_processes()), "the run")
    wait_until(
        lambda: (folder / "attempt-1.stdout").exists() or _has_agent(folder), "the agent", 90
    )
    for process in talker.run_processes():
        os.kill(process.pid, 9)
    assert talker.result(job_id, seconds=90).status == "failed"

    def has_end() -> bool:
        return logged(talker, job_id)[-1]["data"].get("final") is True

    wait_until(has_end, "the end of the log", 60)
    numbers = [event["seq"] for event in logged(talker, job_id)]
    assert numbers == list(range(1, len(numbers) + 1))


def _has_agent(folder: Path) -> bool:
    path = folder / "events.jsonl"
    return path.exists() and '"text":"agent"' in path.read_text()
