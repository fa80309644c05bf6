"""A `shell` payload: every check of it that needs nothing but the payload.

Pure, and the same for sender and host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contracts import limits
from contracts.errors import InvalidRequest, Problem
from contracts.shell import ShellRequest
from validation.fields import missing_problems, unknown_field_problems
from validation.paths import Grammar, path_problem
from validation.values import as_problems, command_problems, text_problems, timeout_problems

_REQUIRED: Final = ("command",)
_FIELDS: Final = tuple(ShellRequest.model_fields)
_TIMES: Final = f"{limits.SHELL_TIMEOUT_MIN_S} to {limits.TIMEOUT_MAX_S}"
_CWD_REMEDY: Final = (
    f"the absolute path of a folder on the executing machine, at most {limits.PATH_MAX_CHARS} "
    "characters, or leave it out"
)


def check_shell(payload: Mapping[str, object], grammar: Grammar = "any") -> ShellRequest:
    """Return the request in `payload`, with nothing added and nothing changed.

    Raises InvalidRequest with all problems.
    """
    problems = unknown_field_problems(payload, _FIELDS)
    problems += missing_problems(payload, _REQUIRED)
    for name in _FIELDS:
        if name in payload:
            problems += _field_problems(name, payload[name], grammar)
    if problems:
        raise InvalidRequest(problems)
    return ShellRequest.model_validate(dict(payload))


def _field_problems(name: str, value: object, grammar: Grammar) -> list[Problem]:
    if name == "timeoutSec" and value is not None:
        return timeout_problems(value, used=_TIMES)
    problems = text_problems(name, value, required=name in _REQUIRED)
    if problems or not isinstance(value, str):
        return problems
    if name == "cwd":
        return as_problems(name, path_problem(value, grammar), _CWD_REMEDY)
    return command_problems(name, value)
