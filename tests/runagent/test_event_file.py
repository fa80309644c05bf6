from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from contracts.clock import ManualClock
from contracts.events import Event, EventKind
from contracts.reason import Reason
from contracts.run_agent import RunAgentResult, Status
from runagent.events.event_file import EventFile
from runagent.events.event_reader import LOG_NAME, EventReader
from runagent.events.shown import shown, shown_input
from validation.redaction import Redactor

JOB = "0123456789abcdef0123"
SECRET = "hunter2hunter2hunter2"


def said(text: str) -> Event:
    return Event(kind=EventKind.TEXT, text=text)


def log_in(folder: Path, **options: int) -> EventFile:
    return EventFile(folder, JOB, ManualClock(), Redactor([SECRET]), **options)


def lines(folder: Path) -> list[dict[str, object]]:
    return [event.model_dump() for event, _ in EventReader(folder).read(1 << 30)]


def result(**changes: object) -> RunAgentResult:
    facts: dict[str, object] = {
        "status": Status.FAILED,
        "summary": "",
        "changed_files": (),
        "tests_attempted": (),
        "known_risks": (),
        "needs_human_review": True,
        "agent": "codex",
        "durationSeconds": 1.0,
        "worktreePath": "",
        **changes,
    }
    return RunAgentResult.model_validate(facts)


def test_each_event_has_its_job_attempt_number_and_time(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.append(said("one"), 1)
    log.append(Event(kind=EventKind.DELTA, text="live only"), 1)
    log.append(said("two"), 2)
    log.end(result(reason=Reason(code="turn_failed"), unknown_events=3))
    found = lines(tmp_path)
    assert [event["seq"] for event in found] == [1, 2, 3]
    assert [event["attempt"] for event in found] == [1, 2, 0]
    assert {event["jobId"] for event in found} == {JOB}
    assert str(found[0]["time"]).endswith("Z")
    last = found[-1]["data"]
    assert isinstance(last, dict)
    assert (last["final"], last["status"], last["unknownEvents"]) == (True, "failed", 3)
    assert os.stat(tmp_path / LOG_NAME).st_mode & 0o777 == 0o600


def test_what_comes_before_the_folder_is_written_when_it_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    log = log_in(folder)
    log.append(said("early"))
    folder.mkdir()
    log.append(said("late"))
    assert [event["text"] for event in lines(folder)] == ["early", "late"]


def test_a_torn_last_line_is_left_behind_and_the_numbers_go_on(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.append(said("whole"))
    with (tmp_path / LOG_NAME).open("ab") as file:
        file.write(b'{"jobId":"' + JOB.encode() + b'","attempt":0,"seq":2,"ti')
    assert [event["seq"] for event in lines(tmp_path)] == [1]
    log_in(tmp_path).append(said("after the crash"))
    assert [(event["seq"], event["text"]) for event in lines(tmp_path)] == [
        (1, "whole"),
        (2, "after the crash"),
    ]


def test_a_flood_ends_at_the_bound_and_the_last_line_says_what_is_missing(tmp_path: Path) -> None:
    bound = 256 * 1024
    log = log_in(tmp_path, max_bytes=bound)
    for number in range(3_000):
        log.append(said(f"{number} " + "x" * 200))
    log.end(result())
    assert (tmp_path / LOG_NAME).stat().st_size <= bound
    found = lines(tmp_path)
    assert [event["seq"] for event in found] == list(range(1, len(found) + 1))
    full, last = found[-2]["data"], found[-1]["data"]
    assert isinstance(full, dict)
    assert isinstance(last, dict)
    assert full["full"] is True
    assert last["lostEvents"] == 3_000 - (len(found) - 2)


def test_a_log_that_cannot_be_written_costs_only_itself(tmp_path: Path) -> None:
    (tmp_path / LOG_NAME).symlink_to(tmp_path / "elsewhere")
    log = log_in(tmp_path)
    log.append(said("one"))
    log.end(result())
    assert not (tmp_path / "elsewhere").exists()
    assert EventReader(tmp_path / "nowhere").read() == []


def test_nothing_secret_and_nothing_that_acts_on_a_terminal_is_written(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.append(said(f"\x1b[31mred\x1b[0m {SECRET}"))
    data = {"callId": SECRET, "input": json.dumps({"password": SECRET, "title": "\x1b]0;x\x07"})}
    log.append(Event(kind=EventKind.TOOL_CALL, text="Bash", data=data))
    raw = (tmp_path / LOG_NAME).read_bytes()
    assert SECRET.encode() not in raw
    assert raw.isascii()
    assert b"u001b" not in raw
    assert b"[redacted]" in raw


def test_a_tool_s_long_input_becomes_its_size_and_a_preview() -> None:
    redactor = Redactor([SECRET])
    assert shown_input(json.dumps({"a": 1}), redactor) == {"a": 1}
    assert shown_input("make test", redactor) == "make test"
    exact = "x" * 2_000
    assert shown_input(exact, redactor) == exact
    long = "x" * 1_990 + SECRET + "y" * 100
    cut = shown_input(long, redactor)
    assert (cut["truncated"], cut["bytes"]) == (True, len(long))
    assert cut["preview"].startswith("xxx")
    assert len(cut["preview"]) == 2_000
    assert "hunter2" not in cut["preview"]


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 10**40, {"a": {"b": [1, {"c": {}}]}}]
)
def test_whatever_an_agent_puts_into_data_can_be_written(tmp_path: Path, value: object) -> None:
    log = log_in(tmp_path)
    log.append(Event(kind=EventKind.STATUS, data={"value": value, "many": list(range(500))}))
    (found,) = lines(tmp_path)
    assert found["kind"] == "status"
    assert len(shown(said("y" * 50_000), Redactor()).text) == 16_000


def test_a_log_is_read_from_any_number_and_in_pieces(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    for number in range(1, 51):
        log.append(said(str(number)))
    reader, found = EventReader(tmp_path, 30), []
    while some := reader.read(300):
        found += [event.seq for event, _ in some]
    assert found == list(range(30, 51))
    log.append(said("new"))
    assert [event.seq for event, _ in reader.read()] == [51]


@pytest.mark.parametrize(
    "secret", ['pa"ss-word-1', "line-one\nline-two", "p\u00e4ssw\u00f6rd-1", "a\\\\b-c-d"]
)
def test_a_secret_that_json_spells_otherwise_is_blanked_in_a_preview_too(secret: str) -> None:
    long = {"content": f"x {secret} y", secret: "z" * 3_000}
    preview = shown_input(json.dumps(long), Redactor([secret]))["preview"]
    assert preview.count("[redacted]") == 2
    assert secret not in preview
    assert json.dumps(secret)[1:-1] not in preview


def test_a_line_is_never_longer_than_a_batch_can_carry(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    wide = [["\U0001f600" * 2_000] * 50] * 50
    log.append(Event(kind=EventKind.STATUS, text="\U0001f600" * 16_000, data={"facts": wide}))
    log.append(said("after it"))
    written = (tmp_path / LOG_NAME).read_bytes().splitlines()
    assert [len(line) < 256 * 1024 for line in written] == [True, True]
    assert lines(tmp_path)[0]["data"]["truncated"] is True


def test_a_line_with_broken_letters_is_read_as_far_as_it_can_be(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.append(said("one MARK"), 1)
    log.append(said("two"), 1)
    path = tmp_path / LOG_NAME
    path.write_bytes(path.read_bytes().replace(b"MARK", b"\xff"))
    found = EventReader(tmp_path).read()
    assert [event.text for event, _ in found] == ["one \ufffd", "two"]
    assert all(event.text in line for event, line in found)
