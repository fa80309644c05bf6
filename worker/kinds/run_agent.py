"""Kind `run_agent`: an agent works in a worktree of its own, in a process of its own.

Composes validation's rules with this machine's paths. Opens no repository before the run.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from contracts.kinds import Kind
from contracts.run_agent import RunAgentResult
from validation.policy import HostPolicy
from validation.policy_rules import Question, decide
from validation.run_agent_request import check_run_agent
from worker.kinds.host_grammar import HOST_GRAMMAR
from worker.repo_map import map_repo
from worker.runs.runs import Runs, RunTask
from worker.settings import HostSettings
from worker.verification import VerifiedJob


@dataclass(frozen=True, slots=True)
class AgentTask:
    """An admitted run, and the folder that its process works in."""

    order: RunTask
    folder: Path
    runs: Runs

    def run(self) -> RunAgentResult:
        """See Task.run."""
        return self.runs.run(self.order, self.folder)


class RunAgentKind:
    """Runs of agents on this host."""

    def __init__(self, settings: HostSettings, runs: Runs) -> None:
        self._settings = settings
        self._runs = runs

    def admit(self, job: VerifiedJob, policy: HostPolicy) -> AgentTask:
        """See JobKind.admit. The request in the task is what was signed, untouched."""
        claims, settings = job.claims, self._settings
        repo = claims.payload.get("repo")
        mapped = map_repo(repo, settings.repo_paths) if isinstance(repo, str) else repo
        on_host = {**claims.payload, "repo": mapped} if "repo" in claims.payload else claims.payload
        request = check_run_agent(on_host, HOST_GRAMMAR)
        question = Question(
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
        decide(policy, question)
        order = RunTask(
            job_id=claims.jti,
            host=settings.host,
            payload=claims.payload,
            repo_on_host=request.repo,
            attempt_limit_s=request.effective_timeout_s,
            require_sandbox=policy.of(claims.iss)[1].require_sandbox,
        )
        return AgentTask(order, settings.runtime_dir(claims.jti), self._runs)
