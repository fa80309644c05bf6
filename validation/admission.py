"""May this payload be a job: one function for the sender and again for the host.

Owns the table kind -> check, and the result of a request that is refused. All problems are found at
once, each naming its field and the remedy. It must never fill in a default, look at a disk, or
repeat a value in a message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from contracts.errors import FleetError, InvalidRequest, Problem, Refused
from contracts.kinds import KIND_NAMES, Kind, canonical_kind
from contracts.ping import PingRequest
from contracts.prompt import PromptRequest
from contracts.run_agent import Risk, RunAgentRequest, RunAgentResult, Status
from contracts.shell import ShellRequest
from validation.bounds import bounded
from validation.paths import Grammar
from validation.ping_request import check_ping
from validation.prompt_request import check_prompt
from validation.run_agent_request import AGENT_NAMES, check_run_agent, is_mode
from validation.shell_request import check_shell

JobRequest: TypeAlias = RunAgentRequest | PingRequest | ShellRequest | PromptRequest

_Check = Callable[[Mapping[str, object], Grammar], JobRequest]
_CHECKS: Final[dict[str, _Check]] = {
    Kind.RUN_AGENT: check_run_agent,
    Kind.PING: check_ping,
    Kind.SHELL: check_shell,
    Kind.PROMPT: check_prompt,
}


def check_payload(
    payload: object, *, kind: str = Kind.RUN_AGENT, grammar: Grammar = "any"
) -> JobRequest:
    """Return the request in `payload`, with nothing added and nothing changed.

    `grammar` is `any` for a sender, which may name a path of another system, and the host's own
    for a host. Raises InvalidRequest with all problems.
    """
    check = _CHECKS.get(canonical_kind(kind))
    if check is None:
        raise unknown_kind()
    if not isinstance(payload, Mapping):
        raise InvalidRequest(
            [Problem("payload", "is not a JSON object", "send { … } with its fields")]
        )
    return check(payload, grammar)


def unknown_kind() -> InvalidRequest:
    """Return the error for a kind that is none of ours."""
    remedy = f"one of {', '.join(KIND_NAMES)}"
    return InvalidRequest([Problem("kind", "is not a kind we know", remedy)])


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
            mode=mode if is_mode(mode) else RunAgentRequest.DEFAULT_MODE,
            risks=risks,
        )
    )


def _refusal_risks(error: FleetError) -> tuple[Risk, ...]:
    if isinstance(error, InvalidRequest) and error.problems:
        return tuple(Risk(code=error.kind, message=str(problem)) for problem in error.problems)
    code = error.code if isinstance(error, Refused) and error.code != "refused" else error.kind
    return (Risk(code=code, message=str(error)),)
