"""A `prompt` payload: every check of it that needs nothing but the payload.

Pure, and the same for sender and host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from contracts import limits
from contracts.errors import InvalidRequest, Problem
from contracts.prompt import Harness, PromptRequest
from validation.fields import missing_problems, unknown_field_problems
from validation.paths import Grammar
from validation.values import text_problems, timeout_problems

_REQUIRED: Final = ("agent", "prompt")
_FIELDS: Final = tuple(PromptRequest.model_fields)
_NAMES: Final = tuple(harness.value for harness in Harness)
# These read the prompt from stdin; the others take it as one argument.
_ON_STDIN: Final = frozenset({Harness.CODEX.value, Harness.OLLAMA.value})
_TIMES: Final = f"1 to {limits.TIMEOUT_MAX_S}"
_MODEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ()._:/@+-]{0,127}")  # never an option


def check_prompt(payload: Mapping[str, object], _grammar: Grammar = "any") -> PromptRequest:
    """Return the request in `payload`, with nothing added and nothing changed.

    Raises InvalidRequest with all problems.
    """
    problems = unknown_field_problems(payload, _FIELDS)
    problems += missing_problems(payload, _REQUIRED)
    for name in _FIELDS:
        if name in payload:
            problems += _field_problems(name, payload[name], payload)
    if payload.get("agent") == Harness.OLLAMA and "model" not in payload:
        problems.append(Problem("model", "is missing", "ollama has no default model"))
    if problems:
        raise InvalidRequest(problems)
    return PromptRequest.model_validate(dict(payload))


def _field_problems(name: str, value: object, payload: Mapping[str, object]) -> list[Problem]:
    if name == "timeoutSec" and value is not None:
        return timeout_problems(value, used=_TIMES)
    problems = text_problems(name, value, required=name in _REQUIRED)
    if problems or not isinstance(value, str):
        return problems
    if name == "agent" and value not in _NAMES:
        return [Problem(name, "is nothing that can be asked", f"one of {', '.join(_NAMES)}")]
    if name == "model" and _MODEL.fullmatch(value) is None:
        return [Problem(name, "is no model's name", "letters, digits and . _ : / @ + - ( )")]
    if name == "prompt":
        return _prompt_problems(value, payload.get("agent"))
    return []


def _prompt_problems(prompt: str, agent: object) -> list[Problem]:
    if "\0" in prompt:
        return [Problem("prompt", "has a NUL character", "send text")]
    size = len(prompt.encode("utf-8"))
    if agent in _NAMES and agent not in _ON_STDIN and size > limits.ARGV_TASK_MAX_BYTES:
        remedy = f"at most {limits.ARGV_TASK_MAX_BYTES} bytes for {agent}; codex takes larger ones"
        return [Problem("prompt", f"is {size} bytes", remedy)]
    return []
