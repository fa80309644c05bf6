"""What the rules of a policy are asked about a job: the facts of its kind, as this host sees them.

Checks the payload first, by this host's own grammar. Follows links, opens nothing, starts nothing.
The decision about a job and its explanation both begin here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, Final

from contracts.job_claims import JobClaims
from contracts.kinds import Kind, canonical_kind
from validation.admission import unknown_kind
from validation.paths import Grammar
from validation.ping_request import check_ping
from validation.policy_rules import Question
from validation.prompt_request import check_prompt
from validation.run_agent_request import check_run_agent
from validation.shell_request import check_shell
from worker.repo_map import map_repo
from worker.settings import HostSettings

HOST_GRAMMAR: Final[Grammar] = "windows" if sys.platform == "win32" else "posix"
_UNCONFINED: Final = frozenset({"auto", "none"})  # modes by which something may run in no sandbox


def question_of(claims: JobClaims, settings: HostSettings) -> Question:
    """Return the question about the job in `claims`. Raises InvalidRequest with all problems."""
    ask = _QUESTIONS.get(canonical_kind(claims.kind))
    if ask is None:
        raise unknown_kind()
    return ask(claims, settings)


def on_this_host(claims: JobClaims, field: str, settings: HostSettings) -> dict[str, Any]:
    """Return the payload with the path in `field` as this host has it."""
    path = claims.payload.get(field)
    if not isinstance(path, str):
        return claims.payload
    return {**claims.payload, field: map_repo(path, settings.repo_paths)}


def _about_agent(claims: JobClaims, settings: HostSettings) -> Question:
    request = check_run_agent(on_this_host(claims, "repo", settings), HOST_GRAMMAR)
    return Question(
        sender=claims.iss,
        lane=claims.lane,
        aud=claims.aud,
        kind=Kind.RUN_AGENT,
        agent=request.agent,
        folder=os.path.realpath(request.repo),
        branch=request.branch or "",
        validate_command=request.validateCommand,
        timeout_s=request.effective_timeout_s,
    )


def _about_ping(claims: JobClaims, _settings: HostSettings) -> Question:
    check_ping(claims.payload)
    return Question(sender=claims.iss, lane=claims.lane, aud=claims.aud, kind=Kind.PING)


def _about_shell(claims: JobClaims, settings: HostSettings) -> Question:
    request = check_shell(on_this_host(claims, "cwd", settings), HOST_GRAMMAR)
    return Question(
        sender=claims.iss,
        lane=claims.lane,
        aud=claims.aud,
        kind=Kind.SHELL,
        folder=None if request.cwd is None else os.path.realpath(request.cwd),
        timeout_s=request.effective_timeout_s,
        is_unconfined=True,
        host_confines=settings.sandbox_mode not in _UNCONFINED,
    )


def _about_prompt(claims: JobClaims, settings: HostSettings) -> Question:
    request = check_prompt(claims.payload)
    return Question(
        sender=claims.iss,
        lane=claims.lane,
        aud=claims.aud,
        kind=Kind.PROMPT,
        agent=request.agent,
        timeout_s=request.effective_timeout_s,
        is_unconfined=True,
        host_confines=settings.sandbox_mode not in _UNCONFINED,
    )


_QUESTIONS: Final[dict[str, Callable[[JobClaims, HostSettings], Question]]] = {
    Kind.RUN_AGENT: _about_agent,
    Kind.PING: _about_ping,
    Kind.SHELL: _about_shell,
    Kind.PROMPT: _about_prompt,
}
