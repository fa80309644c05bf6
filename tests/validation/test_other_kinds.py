"""Payloads of the kinds without a worktree: every problem at once, each with its field."""

from __future__ import annotations

from typing import Any

import pytest

from contracts import limits
from contracts.errors import InvalidRequest
from validation.admission import check_payload


def fields(payload: Any, kind: str, grammar: Any = "posix") -> list[str]:
    with pytest.raises(InvalidRequest) as caught:
        check_payload(payload, kind=kind, grammar=grammar)
    return sorted(problem.field for problem in caught.value.problems)


@pytest.mark.parametrize("kind", ["shell", "pwsh"])
@pytest.mark.parametrize(
    ("payload", "wrong"),
    [
        ({}, ["command"]),
        ({"command": None}, ["command"]),
        ({"command": 1}, ["command"]),
        ({"command": " "}, ["command"]),
        ({"command": "a\0b"}, ["command"]),
        ({"command": "\ud800"}, ["command"]),
        ({"command": "x" * (limits.COMMAND_MAX_BYTES + 1)}, ["command"]),
        ({"command": "x", "cwd": "relative"}, ["cwd"]),
        ({"command": "x", "cwd": "/a/../b"}, ["cwd"]),
        ({"command": "x", "cwd": None}, ["cwd"]),
        ({"command": "x", "timeoutSec": "1"}, ["timeoutSec"]),
        ({"command": "x", "timeoutSec": None}, ["timeoutSec"]),
        ({"command": "x", "timeoutSec": 2**53}, ["timeoutSec"]),
        ({"cwd": 1, "timeoutSec": 1.5, "shell": "bash"}, ["command", "cwd", "shell", "timeoutSec"]),
    ],
)
def test_a_command_with_anything_wrong_is_refused(
    payload: dict[str, Any], wrong: list[str], kind: str
) -> None:
    assert fields(payload, kind) == wrong


def test_a_command_is_taken_as_it_stands() -> None:
    payload = {"command": "a | b; c", "cwd": "C:\\src", "timeoutSec": 5}
    assert check_payload(payload, kind="pwsh").to_payload() == payload


def test_a_ping_has_no_fields() -> None:
    assert check_payload({}, kind="ping").to_payload() == {}
    assert fields({"echo": 1}, "ping") == ["payload"]
    assert fields([], "ping") == ["payload"]
