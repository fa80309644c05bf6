"""The frozen contract of `run_agent`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from contracts.run_agent import AgentName, CommandState, RunAgentRequest, RunAgentResult, Status
from tests.support.samples import NINE_KEYS, SEED_REQUEST, SEED_RESULT, payload, result


def test_the_five_statuses_and_the_four_agents_are_the_contracts() -> None:
    assert sorted(Status) == [
        "approval_required", "completed", "failed", "rate_limited", "timed_out",
    ]  # fmt: skip
    assert list(AgentName) == ["codex", "claude", "gemini", "grok"]
    assert sorted(CommandState) == ["failed", "not_run", "passed", "timed_out"]


def test_the_contracts_own_example_of_a_result_is_read_and_written_back() -> None:
    sample = json.loads(SEED_RESULT)
    read = RunAgentResult.model_validate_json(SEED_RESULT)
    written = json.loads(read.to_json())
    assert {key: written[key] for key in sample} == sample


def test_the_nine_keys_come_first_exactly_as_the_contract_spells_them() -> None:
    assert tuple(json.loads(SEED_RESULT)) == NINE_KEYS
    assert tuple(json.loads(result().to_json()))[:9] == NINE_KEYS


@pytest.mark.parametrize("name", NINE_KEYS)
def test_none_of_the_nine_may_be_missing_or_null(name: str) -> None:
    sample = json.loads(SEED_RESULT)
    for broken in ({**sample, name: None}, {k: v for k, v in sample.items() if k != name}):
        with pytest.raises(ValidationError):
            RunAgentResult.model_validate_json(json.dumps(broken))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "cancelled"),
        ("status", "Completed"),
        ("needs_human_review", "false"),
        ("needs_human_review", 0),
        ("changed_files", "a"),
        ("changed_files", [1]),
        ("durationSeconds", "1"),
        ("durationSeconds", float("nan")),
        ("durationSeconds", float("inf")),
        ("worktreePath", 1),
    ],
)
def test_a_result_with_a_field_of_another_type_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValidationError):
        result(**{name: value})


def test_whole_seconds_of_another_language_are_read_as_seconds() -> None:
    read = RunAgentResult.model_validate({**json.loads(SEED_RESULT), "durationSeconds": 312})
    assert json.loads(read.to_json())["durationSeconds"] == 312.0


def test_a_reader_keeps_the_fields_that_a_newer_host_added() -> None:
    text = json.dumps(
        {
            **json.loads(SEED_RESULT),
            "later": {"deep": [1]},
            "risks": [{"code": "a", "message": "b", "since": "S1"}],
            "validation": {"ran": True, "source": "autodetected", "box": "none"},
        }
    )
    written = json.loads(RunAgentResult.model_validate_json(text).to_json())
    assert written["later"] == {"deep": [1]}
    assert written["risks"][0]["since"] == "S1"
    assert written["validation"]["box"] == "none"


def test_a_rename_is_written_as_from_and_to() -> None:
    one = result(renames=({"from": "a", "to": "b"},))
    assert json.loads(one.to_json())["renames"] == [{"from": "a", "to": "b"}]


def test_the_print_out_for_people_is_indented_and_the_same_document() -> None:
    assert json.loads(result().to_json(indent=2)) == json.loads(result().to_json())
    assert "\n  " in result().to_json(indent=2)


def test_the_contracts_own_example_of_a_request_is_read() -> None:
    assert RunAgentRequest.model_validate(SEED_REQUEST).to_payload() == SEED_REQUEST


def test_defaults_are_read_and_never_written() -> None:
    request = RunAgentRequest.model_validate(payload())
    assert request.effective_mode == "build"
    assert request.effective_timeout_s == 1_200
    assert request.branch is None
    assert request.to_payload() == payload()


@pytest.mark.parametrize(
    ("sent", "used"),
    [(-5, 60), (0, 60), (59, 60), (60, 60), (61, 61), (14_400, 14_400), (14_401, 14_400)],
)
def test_a_timeout_is_clamped_when_read_and_kept_as_it_was_sent(sent: int, used: int) -> None:
    request = RunAgentRequest.model_validate(payload(timeoutSec=sent))
    assert request.effective_timeout_s == used
    assert request.to_payload()["timeoutSec"] == sent


@given(st.integers())
def test_no_integer_leads_out_of_the_range_of_timeouts(sent: int) -> None:
    request = RunAgentRequest.model_validate(payload(timeoutSec=sent))
    assert 60 <= request.effective_timeout_s <= 14_400


@pytest.mark.parametrize("change", [{"timeout": 5}, {"timeoutSec": True}, {"task": 1}])
def test_the_model_itself_refuses_unknown_fields_and_other_types(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RunAgentRequest.model_validate(payload(**change))


def test_a_mode_of_the_senders_own_is_used_as_it_is() -> None:
    assert RunAgentRequest.model_validate(payload(mode="review")).effective_mode == "review"
