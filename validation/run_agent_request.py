"""A `run_agent` payload: every check of it that needs nothing but the payload.

Pure, and the same for sender and host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeGuard

from contracts import limits
from contracts.errors import InvalidRequest, Problem
from contracts.run_agent import AgentName, RunAgentRequest
from validation.fields import missing_problems, unknown_field_problems
from validation.paths import Grammar, has_control, path_problem
from validation.refs import branch_problem, ticket_problem
from validation.values import as_problems, command_problems, text_problems, timeout_problems

AGENT_NAMES: Final = tuple(agent.value for agent in AgentName)

_REQUIRED: Final = ("agent", "task", "repo", "ticket")
_FIELDS: Final = tuple(RunAgentRequest.model_fields)
# Codex takes its prompt on stdin; the others take one argument.
_PROMPT_ON_STDIN: Final = frozenset({AgentName.CODEX.value})
_TIMES: Final = f"{limits.TIMEOUT_MIN_S} to {limits.TIMEOUT_MAX_S}"


def check_run_agent(payload: Mapping[str, object], grammar: Grammar = "any") -> RunAgentRequest:
    """Return the request in `payload`, with nothing added and nothing changed.

    Raises InvalidRequest with all problems.
    """
    problems = unknown_field_problems(payload, _FIELDS)
    problems += missing_problems(payload, _REQUIRED)
    for name in _FIELDS:
        if name in payload:
            problems += _field_problems(name, payload[name], payload, grammar)
    if problems:
        raise InvalidRequest(problems)
    return RunAgentRequest.model_validate(dict(payload))


def is_mode(value: object) -> TypeGuard[str]:
    """Say whether `value` can be a mode."""
    return isinstance(value, str) and not (
        text_problems("mode", value, required=False) or _mode_problems(value)
    )


def _field_problems(
    name: str, value: object, payload: Mapping[str, object], grammar: Grammar
) -> list[Problem]:
    if name == "timeoutSec" and value is not None:
        return timeout_problems(value, used=_TIMES)
    problems = text_problems(name, value, required=name in _REQUIRED)
    if problems or not isinstance(value, str):
        return problems
    if name == "task":
        return _task_problems(value, payload.get("agent"))
    if name == "repo":
        return as_problems(name, path_problem(value, grammar), _REPO_REMEDY)
    return _TEXT_CHECKS[name](value)


def _agent_problems(value: str) -> list[Problem]:
    if value in AGENT_NAMES:
        return []
    return [Problem("agent", "is not an agent we know", f"one of {', '.join(AGENT_NAMES)}")]


def _task_problems(task: str, agent: object) -> list[Problem]:
    if "\0" in task:
        return [Problem("task", "has a NUL character", "send text")]
    size = len(task.encode("utf-8"))
    by_argument = agent in AGENT_NAMES and agent not in _PROMPT_ON_STDIN
    if by_argument and size > limits.ARGV_TASK_MAX_BYTES:
        remedy = (
            f"at most {limits.ARGV_TASK_MAX_BYTES} bytes for {agent}; "
            "use codex for larger briefs, it takes the prompt on stdin"
        )
        return [Problem("task", f"is {size} bytes", remedy)]
    return []


def _ticket_problems(value: str) -> list[Problem]:
    remedy = (
        f"1 to {limits.TICKET_MAX_CHARS} of A-Z a-z 0-9 . _ -, not starting with '-' or '.', "
        "not ending with '.' or '.lock', without '..'"
    )
    return as_problems("ticket", ticket_problem(value), remedy)


def _branch_problems(value: str) -> list[Problem]:
    remedy = (
        f"at most {limits.REF_MAX_BYTES} of A-Z a-z 0-9 . _ - /, no leading '-', no '..', "
        "and git's own rules for branch names"
    )
    return as_problems("branch", branch_problem(value), remedy)


def _mode_problems(value: str) -> list[Problem]:
    if has_control(value):
        message = "has a control character or a line break"
        return [Problem("mode", message, "one line of plain text")]
    if len(value) > limits.MODE_MAX_CHARS:
        message = f"is {len(value)} characters long"
        return [Problem("mode", message, f"at most {limits.MODE_MAX_CHARS} characters")]
    return []


_REPO_REMEDY: Final = (
    f"the absolute path on the executing machine, at most {limits.PATH_MAX_CHARS} characters"
)
_TEXT_CHECKS: Final[dict[str, Callable[[str], list[Problem]]]] = {
    "agent": _agent_problems,
    "ticket": _ticket_problems,
    "branch": _branch_problems,
    "mode": _mode_problems,
    "validateCommand": partial(command_problems, "validateCommand"),
}
