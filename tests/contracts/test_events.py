"""The vocabulary of agent events."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from contracts.events import Event, EventKind


def test_the_kinds_are_exactly_these() -> None:
    assert sorted(EventKind) == [
        "approval", "auth_expired", "delta", "error", "permission", "quota", "result", "session",
        "status", "text", "thinking", "tool_call", "tool_result", "usage", "user",
    ]  # fmt: skip


def test_an_event_keeps_fields_that_this_version_does_not_know() -> None:
    event = Event.model_validate_json('{"kind":"text","text":"hi","later":1}')
    assert event.kind is EventKind.TEXT
    assert event.model_dump(mode="json")["later"] == 1


def test_an_event_does_not_change_after_it_was_read() -> None:
    event = Event(kind=EventKind.TEXT, text="hi")
    with pytest.raises(ValidationError):
        event.text = "bye"  # type: ignore[misc] # the assignment is what must fail
    assert event.data == {}
