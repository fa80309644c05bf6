"""A file of many jobs: `enqueue --ndjson`, checked whole, and told in one document."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.errors import InvalidRequest
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
    assert "from line 1 to line 3 nobody knows" in told.err
    assert say(*words).out.count("  unknown\n") == 3
