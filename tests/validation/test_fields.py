"""Unknown fields and what was meant by them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.run_agent import RunAgentRequest
from validation.fields import suggested_field, unknown_field_problems

FIELDS = tuple(RunAgentRequest.model_fields)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("timeout", "timeoutSec"),
        ("timeout_sec", "timeoutSec"),
        ("TimeoutSec", "timeoutSec"),
        ("timeoutsec", "timeoutSec"),
        ("timeout-seconds", "timeoutSec"),
        ("timeouSec", "timeoutSec"),
        ("validate_cmd", "validateCommand"),
        ("validate-cmd", "validateCommand"),
        ("validate_command", "validateCommand"),
        ("validateComand", "validateCommand"),
        ("prompt", "task"),
        ("Task", "task"),
        ("repository", "repo"),
        ("agnet", "agent"),
        ("tickt", "ticket"),
        ("base", "branch"),
        ("MODE", "mode"),
    ],
)
def test_a_near_miss_is_answered_with_the_field_that_was_meant(name: str, meant: str) -> None:
    assert suggested_field(name, FIELDS) == meant
    problem = unknown_field_problems([name], FIELDS)[0]
    assert problem.field == name
    assert problem.remedy == f"did you mean {meant}?"


@pytest.mark.parametrize("name", ["colour", "x", "", "priority", "callback"])
def test_a_field_that_is_near_to_nothing_is_answered_with_all_fields(name: str) -> None:
    problem = unknown_field_problems([name], FIELDS)[0]
    assert "agent, task, repo, ticket" in problem.remedy


def test_a_word_is_suggested_only_where_the_field_exists() -> None:
    assert suggested_field("prompt", ("alpha", "beta")) is None


def test_a_hostile_name_is_shown_escaped_and_short() -> None:
    hostile = "\x1b[31m" + "x" * 10_000
    shown = unknown_field_problems([hostile, 7], FIELDS)[0].field
    assert shown.isprintable()
    assert len(shown) < 100
    assert unknown_field_problems([7], FIELDS)[0].field == "'a key of type int'"


def test_a_hundred_thousand_unknown_fields_get_a_message_one_can_read() -> None:
    problems = unknown_field_problems((f"f{n}" for n in range(100_000)), FIELDS)
    assert len(problems) == 21
    assert problems[-1].message == "has 99980 more unknown fields"


@given(st.text(max_size=30))
def test_a_suggestion_is_always_a_field_that_exists(name: str) -> None:
    assert suggested_field(name, FIELDS) in (None, *FIELDS)
