"""A `prompt` payload: what may be asked, of whom, and how much."""

from __future__ import annotations

from typing import Any

import pytest

from contracts.errors import InvalidRequest
from contracts.kinds import Kind
from contracts.prompt import PromptRequest
from validation.admission import check_payload

GOOD: dict[str, Any] = {"agent": "codex", "prompt": "What is 2 + 2?"}


def check(**changes: Any) -> PromptRequest:
    payload = {k: v for k, v in {**GOOD, **changes}.items() if v != "absent"}
    request = check_payload(payload, kind=Kind.PROMPT)
    assert isinstance(request, PromptRequest)
    assert request.to_payload() == payload
    return request


def test_a_prompt_has_a_limit_of_its_own_and_a_model_if_it_names_one() -> None:
    assert check().effective_timeout_s == 1_200
    assert check(timeoutSec=0).effective_timeout_s == 1
    assert check(timeoutSec=99_999).effective_timeout_s == 14_400
    assert check(agent="ollama", model="llama3.2:3b").model == "llama3.2:3b"
    assert check(prompt="x" * 100_000).agent == "codex"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"agent": "gpt"}, "agent"),
        ({"agent": None}, "agent"),
        ({"prompt": "absent"}, "prompt"),
        ({"prompt": " "}, "prompt"),
        ({"prompt": "a\0b"}, "prompt"),
        ({"prompt": "x" * 28_001, "agent": "claude"}, "prompt"),
        ({"model": "--evil"}, "model"),
        ({"agent": "ollama"}, "model"),
        ({"timeoutSec": "5"}, "timeoutSec"),
        ({"repo": "/srv/x"}, "repo"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check(**changes)
    assert [problem.field for problem in refused.value.problems] == [field]
