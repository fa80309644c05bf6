"""May this payload be a job: one function for the sender and again for the host.

Owns every check of a `run_agent` payload that needs nothing but the payload, and the result of a
request that is refused. All problems are found at once, each naming its field and the remedy. It
must never fill in a default, look at a disk, or repeat a value in a message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeGuard

from contracts import limits
from contracts.errors import FleetError, InvalidRequest, Problem, Refused
from contracts.run_agent import KIND, AgentName, Risk, RunAgentRequest, RunAgentResult, Status
from validation.bounds import bounded
from validation.fields import unknown_field_problems
from validation.paths import Grammar, has_control, path_problem
from validation.refs import branch_problem, ticket_problem

AGENT_NAMES: Final = tuple(agent.value for agent in AgentName)
KINDS: Final = (KIND,)

_REQUIRED: Final = ("agent", "task", "repo", "ticket")
_FIELDS: Final = tuple(RunAgentRequest.model_fields)
# Codex takes its prompt on stdin; the others take one argument.
_PROMPT_ON_STDIN: Final = frozenset({AgentName.CODEX.value})


def check_payload(
    payload: object, *, kind: str = KIND, grammar: Grammar = "any"
) -> RunAgentRequest:
    """Return the request in `payload`, with nothing added and nothing changed.

    `grammar` is `any` for a sender, which may name a path of another system, and the host's own
    for a host. Raises InvalidRequest with all problems.
    """
    if kind not in KINDS:
        raise InvalidRequest(
            [Problem("kind", "is not a kind we know", f"one of {', '.join(KINDS)}")]
        )
    if not isinstance(payload, Mapping):
        raise InvalidRequest(
            [Problem("payload", "is not a JSON object", "send { … } with its fields")]
        )
    problems = unknown_field_problems(payload, _FIELDS)
    problems += [
        Problem(name, "is missing", "it is required") for name in _REQUIRED if name not in payload
    ]
    for name in _FIELDS:
        if name in payload:
            problems += _field_problems(name, payload[name], payload, grammar)
    if problems:
        raise InvalidRequest(problems)
    return RunAgentRequest.model_validate(dict(payload))


def refused_result(
    payload: object,
    error: FleetError | Sequence[Problem],
    *,
    job_id: str,
    host: str,
    seconds: float = 0.0,
) -> RunAgentResult:
    """Return the `failed` result of a request that was refused before anything was started.

    All nine frozen keys are there and none is null; `worktreePath` is empty. `payload` may be
    anything at all: what can be read of it (agent, mode) is echoed when it is well-formed.
    """
    refusal = error if isinstance(error, FleetError) else InvalidRequest(error)
    known = payload if isinstance(payload, Mapping) else {}
    agent, mode = known.get("agent"), known.get("mode")
    risks = _refusal_risks(refusal)
    return bounded(
        RunAgentResult(
            status=Status.FAILED,
            summary=f"Not started: {refusal}",
            changed_files=(),
            tests_attempted=(),
            known_risks=tuple(risk.message for risk in risks),
            needs_human_review=True,
            agent=agent if isinstance(agent, str) and agent in AGENT_NAMES else "",
            durationSeconds=float(seconds),
            worktreePath="",
            jobId=job_id,
            host=host,
            mode=mode if _is_mode(mode) else RunAgentRequest.DEFAULT_MODE,
            risks=risks,
        )
    )


def _refusal_risks(error: FleetError) -> tuple[Risk, ...]:
    if isinstance(error, InvalidRequest) and error.problems:
        return tuple(Risk(code=error.kind, message=str(problem)) for problem in error.problems)
    code = error.code if isinstance(error, Refused) and error.code != "refused" else error.kind
    return (Risk(code=code, message=str(error)),)


def _field_problems(
    name: str, value: object, payload: Mapping[str, object], grammar: Grammar
) -> list[Problem]:
    if value is None:
        return [Problem(name, "is null", _absent_remedy(name))]
    if name == "timeoutSec":
        return _timeout_problems(value)
    if not isinstance(value, str):
        return [Problem(name, f"is {_type_name(value)}", "give a string")]
    if _has_lone_surrogate(value):
        return [Problem(name, "has half a character (a lone surrogate)", "send whole characters")]
    if not value.strip():
        return [Problem(name, "is empty", _absent_remedy(name))]
    if name == "task":
        return _task_problems(value, payload.get("agent"))
    if name == "repo":
        return _as_problems(name, path_problem(value, grammar), _REPO_REMEDY)
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
    return _as_problems("ticket", ticket_problem(value), remedy)


def _branch_problems(value: str) -> list[Problem]:
    remedy = (
        f"at most {limits.REF_MAX_BYTES} of A-Z a-z 0-9 . _ - /, no leading '-', no '..', "
        "and git's own rules for branch names"
    )
    return _as_problems("branch", branch_problem(value), remedy)


def _is_mode(value: object) -> TypeGuard[str]:
    fit = isinstance(value, str) and value.strip() and not _has_lone_surrogate(value)
    return bool(fit) and not _mode_problems(str(value))


def _mode_problems(value: str) -> list[Problem]:
    if has_control(value):
        message = "has a control character or a line break"
        return [Problem("mode", message, "one line of plain text")]
    if len(value) > limits.MODE_MAX_CHARS:
        message = f"is {len(value)} characters long"
        return [Problem("mode", message, f"at most {limits.MODE_MAX_CHARS} characters")]
    return []


def _command_problems(value: str) -> list[Problem]:
    if "\0" in value:
        return [Problem("validateCommand", "has a NUL character", "send a shell command")]
    size = len(value.encode("utf-8"))
    if size > limits.COMMAND_MAX_BYTES:
        remedy = f"at most {limits.COMMAND_MAX_BYTES} bytes; put it in a script of the repository"
        return [Problem("validateCommand", f"is {size} bytes", remedy)]
    return []


def _timeout_problems(value: object) -> list[Problem]:
    if isinstance(value, bool) or not isinstance(value, int):
        remedy = "give whole seconds as a number; 60 to 14400 are used as they are"
        return [Problem("timeoutSec", f"is {_type_name(value)}", remedy)]
    if abs(value) > limits.JSON_INT_MAX:
        remedy = f"whole seconds, at most {limits.TIMEOUT_MAX_S} are used"
        return [Problem("timeoutSec", "is beyond 2^53-1, which JSON cannot carry", remedy)]
    return []


def _as_problems(name: str, message: str | None, remedy: str) -> list[Problem]:
    return [] if message is None else [Problem(name, message, remedy)]


def _has_lone_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _type_name(value: object) -> str:
    kinds = ((bool, "true or false"), (int, "a number"), (float, "a number with a fraction"))
    for kind, name in (*kinds, (str, "a string"), (Mapping, "an object"), (list, "a list")):
        if isinstance(value, kind):
            return name
    return "of another type"


def _absent_remedy(name: str) -> str:
    return "give a value" if name in _REQUIRED else "leave the field out"


_REPO_REMEDY: Final = (
    f"the absolute path on the executing machine, at most {limits.PATH_MAX_CHARS} characters"
)
_TEXT_CHECKS: Final[dict[str, Callable[[str], list[Problem]]]] = {
    "agent": _agent_problems,
    "ticket": _ticket_problems,
    "branch": _branch_problems,
    "mode": _mode_problems,
    "validateCommand": _command_problems,
}
