"""Kind `run_agent`: an agent works in a worktree of its own, in a process of its own.

Composes the order for the run from what was signed and what the policy says. Opens no repository.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from contracts.run_agent import RunAgentRequest, RunAgentResult
from validation.policy import HostPolicy
from validation.policy_rules import decide
from worker.kinds.questions import on_this_host, question_of
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
        decide(policy, question_of(claims, settings))
        request = RunAgentRequest.model_validate(claims.payload)
        rights = policy.of(claims.iss)[1]
        order = RunTask(
            job_id=claims.jti,
            host=settings.host,
            payload=claims.payload,
            repo_on_host=on_this_host(claims, "repo", settings)["repo"],
            attempt_limit_s=request.effective_timeout_s,
            require_sandbox=rights.require_sandbox,
            repo_roots=rights.repo_roots,
            validator=policy.validator_argv(request.validateCommand),
        )
        return AgentTask(order, settings.runtime_dir(claims.jti), self._runs)
