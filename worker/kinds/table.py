"""The table kind -> what this host does for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contracts.clock import Clock
from contracts.kinds import Kind, canonical_kind
from validation.admission import unknown_kind
from validation.policy import HostPolicy
from worker.kinds.ping import PingKind
from worker.kinds.prompt import PromptKind
from worker.kinds.protocol import JobKind, Task
from worker.kinds.run_agent import RunAgentKind
from worker.kinds.shell import ShellKind
from worker.runs.runs import Runs
from worker.settings import HostSettings
from worker.verification import VerifiedJob


class HostKinds:
    """Every kind that this host knows."""

    def __init__(
        self, settings: HostSettings, runs: Runs, clock: Clock, environment: Mapping[str, str]
    ) -> None:
        """`environment` is this process's own: commands inherit from it by allow-list."""
        self._kinds: Final[Mapping[str, JobKind]] = {
            Kind.RUN_AGENT: RunAgentKind(settings, runs),
            Kind.PING: PingKind(settings, clock),
            Kind.SHELL: ShellKind(settings, runs, environment),
            Kind.PROMPT: PromptKind(settings, runs, environment, clock),
        }

    def admit(self, job: VerifiedJob, policy: HostPolicy) -> Task:
        """Return the task of `job`; see JobKind.admit."""
        kind = self._kinds.get(canonical_kind(job.claims.kind))
        if kind is None:
            raise unknown_kind()
        return kind.admit(job, policy)
