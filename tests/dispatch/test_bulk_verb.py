"""A file of many jobs: `enqueue --ndjson`, checked whole, and told in one document."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.errors import BulkStopped, InvalidRequest
from dispatch.commands.payload_file import read_payloads
from tests.dispatch.conftest import Said
from tests.dispatch.desk import PAYLOAD, Desk
from tests.dispatch.test_bulk import many

Say = Callable[..., Said]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.ndjson"
    path.write_text("\n".join(map(json.dumps, many(3))) + "\n\n")
    return path


def test_a_file_of_lines_is_queued_and_told_in_one_document(
    say: Say, desk: Desk, lines: Path
) -> None:
    words = ("enqueue", "--lane", "A", "--payload-file", str(lines), "--ndjson")
    told = say(*words, "--json", environ=desk.environ)
    document = json.loads(told.out)
    assert told.code == 0
    assert [row["pushed"] for row in document["jobs"]] == ["queued"] * 3
    assert desk.queued("fd.lane.A") == [row["jobId"] for row in document["jobs"]]
    assert say(*words).out.count("  queued\n") == 3


def test_a_bulk_waits_for_its_jobs(say: Say, desk: Desk, lines: Path) -> None:
    words = ("enqueue", "--lane", "A", "--payload-file", str(lines), "--ndjson", "--json")
    keyed = (*words, "--idempotency-key", "k")
    for row in json.loads(say(*keyed, environ=desk.environ).out)["jobs"]:
        desk.answer(row["jobId"], "PC1")
    waited = say(*keyed, "--wait", "5")
    assert waited.code == 0
    assert [row["status"] for row in json.loads(waited.out)["jobs"]] == ["completed"] * 3


def test_a_line_that_is_wrong_is_named_with_its_field_and_nothing_is_sent(
    say: Say, desk: Desk, lines: Path
) -> None:
    words = ("enqueue", "--lane", "A", "--payload-file", str(lines), "--ndjson")
    lines.write_text("\n" + json.dumps(PAYLOAD) + "\n{no json\n[1]\n")
    told = say(*words, environ=desk.environ)
    assert told.code == 2
    assert "line 3: is not JSON" in told.err
    assert "line 4: is not a JSON object" in told.err
    lines.write_text("\n" + json.dumps(PAYLOAD) + "\n" + json.dumps({**PAYLOAD, "ticket": "-"}))
    told = say(*words, "--json")
    (problem,) = json.loads(told.out)["error"]["problems"]
    assert problem["field"] == "line 3: ticket"
    assert problem["remedy"]
    lines.write_text("[]\n" * 50)
    assert say(*words).err.count("is not a JSON object") == 20
    lines.write_text("\n")
    assert "holds no payload" in say(*words).err
    assert "is for one job" in say(*words, "--resend-lane").err
    assert desk.queued("fd.lane.A") == []


def test_what_is_wrong_with_lines_and_with_fields_is_named_together_in_the_order_of_the_lines(
    say: Say, desk: Desk, lines: Path
) -> None:
    words = ("enqueue", "--lane", "A", "--payload-file", str(lines), "--ndjson", "--json")
    good, bad = json.dumps(PAYLOAD), json.dumps({**PAYLOAD, "ticket": "-"})
    lines.write_text(f"{good}\n{bad}\n\n{{}} {{}}\n[]\n{bad}\n")
    problems = json.loads(say(*words, environ=desk.environ).out)["error"]["problems"]
    assert [item["field"].partition(":")[0] for item in problems] == [
        *("line 2", "line 4", "line 5", "line 6")
    ]
    assert problems[1] == {
        "field": "line 4",
        "message": "is not JSON at column 4",
        "remedy": "check it with a JSON tool",
    }
    lines.write_text(f"{bad}\n{{\n" * 15)
    problems = json.loads(say(*words).out)["error"]["problems"]
    assert [item["field"].partition(":")[0] for item in problems[:20]] == [
        f"line {number}" for number in range(1, 21)
    ]
    assert [item["message"] for item in problems[20:]] == ["have 10 more problems"]
    lines.write_text("{\n" * 10_001)
    problems = json.loads(say(*words).out)["error"]["problems"]
    assert [item["message"] for item in problems[20:]] == [
        *("have 9981 more problems", "holds too many payloads")
    ]
    assert desk.queued("fd.lane.A") == []


@pytest.mark.parametrize("key", ["nightly", ""])
def test_an_interrupt_amid_many_says_which_lines_are_queued_and_how_to_send_the_rest(
    desk: Desk, lines: Path, key: str
) -> None:
    lines.write_text("\n".join(map(json.dumps, many(600))))
    words = ["enqueue", "--lane", "A", "--payload-file", str(lines), "--ndjson", "--json"]
    command = [sys.executable, "-c", STOPPED_AFTER_256, *words]
    environ = {**os.environ, **desk.environ}
    keyed = ["--idempotency-key", key] if key else []
    process = subprocess.run(
        [*command, *keyed], env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    document = json.loads(process.stdout)
    assert process.returncode == document["exitCode"] == 4
    assert document["error"]["kind"] == "interrupted"
    assert "interrupted; up to line 256 all are queued, from line 257 on none was sent" in (
        process.stderr
    )
    assert [row["jobId"] for row in document["jobs"]] == desk.queued("fd.lane.A")
    if not key:
        assert "send the rest with an idempotency key" in process.stderr
        return
    assert "the same again with the same key queues each of them once" in process.stderr
    again = [sys.executable, "-c", "from dispatch.cli import main; main()", *words, *keyed]
    subprocess.run(again, env=environ, capture_output=True, timeout=60, check=True)
    assert len(desk.queued("fd.lane.A")) == 600


# A person's Ctrl-C after the first batch, dropped by Python on its way.
STOPPED_AFTER_256 = """
import signal
from dispatch.cli import main
from dispatch.commands.sent_jobs import Counter

class Dropped:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

Counter.show = lambda self, done: Dropped() and None
main()
"""


# A person's Ctrl-C while the answer of the broker to the first batch is on its way.
STOPPED_IN_A_PUSH = """
import signal
from dispatch.cli import main
from dispatch.queue import FleetQueue

push = FleetQueue.push_fresh

def push_fresh(self, jobs):
    push(self, jobs)
    signal.raise_signal(signal.SIGINT)

FleetQueue.push_fresh = push_fresh
main()
"""


def test_an_interrupt_while_a_batch_is_on_its_way_says_of_which_lines_nobody_knows(
    say: Say, desk: Desk, lines: Path
) -> None:
    lines.write_text("\n".join(map(json.dumps, many(300))))
    words = ["enqueue", "--lane", "A", "--payload-file", str(lines), "--ndjson"]
    process = subprocess.run(
        [sys.executable, "-c", STOPPED_IN_A_PUSH, *words],
        env={**os.environ, **desk.environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == 4
    assert "from line 1 to line 256 nobody knows, from line 257 on none was sent" in process.stderr
    assert "Traceback" not in process.stderr
    ids = [line.split()[0] for line in process.stdout.splitlines() if line.endswith("  unknown")]
    assert len(ids) == 256
    assert "fleet-dispatch sweep" in process.stderr
    assert say("sweep", *ids, environ=desk.environ).code == 0
    assert desk.queued("fd.lane.A") == ids  # each of them once


def test_a_place_is_said_for_each_payload_or_for_none(desk: Desk) -> None:
    with desk.client() as client:
        for places in (["a"], ["a", "b", "c"]):
            with pytest.raises(InvalidRequest, match=r"places: are \d for 2 payloads"):
                client.enqueue_many(many(2), lane="A", places=places)
        assert client._sent.recent(9) == []


def test_an_interrupt_amid_many_stays_one_and_holds_what_is_queued(desk: Desk) -> None:
    def interrupt(done: int) -> None:
        raise KeyboardInterrupt

    with desk.client() as client:
        with pytest.raises(KeyboardInterrupt) as interrupted:
            client.enqueue_many(many(300), lane="A", on_batch=interrupt)
        stopped = interrupted.value.__cause__
        assert isinstance(stopped, BulkStopped)
        assert (stopped.unsent, len(stopped.jobs)) == (256, 256)
        with pytest.raises(KeyboardInterrupt) as interrupted:
            client.enqueue_many(many(3), lane="A", on_batch=interrupt)
        assert "up to payload 3 all are queued (nothing is left to send)" in str(
            interrupted.value.__cause__
        )
    assert len(desk.queued("fd.lane.A")) == 259


@pytest.mark.parametrize(
    ("line", "count", "why"), [(b"{}\n", 100_000, "too many"), (b"\n", 4_000_000, "no payload")]
)
def test_a_file_of_far_too_many_lines_is_not_taken_apart(
    lines: Path, line: bytes, count: int, why: str
) -> None:
    lines.write_bytes(line * count)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest, match=f"holds {why}"):
            read_payloads(str(lines))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < (96 + 16) * 1024 * 1024  # room for the largest file, and for 10 000 payloads


def test_payloads_without_an_end_are_refused(desk: Desk) -> None:
    with desk.client() as client, pytest.raises(InvalidRequest, match="more than 10000"):
        client.enqueue_many(itertools.repeat(PAYLOAD), lane="A")


def test_lines_may_end_as_windows_ends_them_and_the_last_one_need_not(
    say: Say, desk: Desk, lines: Path
) -> None:
    lines.write_bytes("\r\n".join(["", *map(json.dumps, many(2))]).encode())
    words = ("enqueue", "--lane", "A", "--payload-file", str(lines), "--ndjson")
    assert say(*words, environ=desk.environ).code == 0
    assert len(desk.queued("fd.lane.A")) == 2


def test_a_bulk_that_was_stopped_names_what_there_is_in_one_document(
    say: Say, desk: Desk, lines: Path
) -> None:
    desk.broker.stop()
    words = ("enqueue", "--lane", "A", "--payload-file", str(lines), "--ndjson")
    told = say(*words, "--json", environ=desk.environ)
    document = json.loads(told.out)
    assert told.code == document["exitCode"] == 3
    assert [row["pushed"] for row in document["jobs"]] == ["unknown"] * 3
    assert document["error"]["kind"] == "bulk_stopped"
    assert "nothing was queued: from line 1 on none was sent" in told.err
    assert "nobody knows" not in told.err
    assert say(*words).out.count("  unknown\n") == 3
