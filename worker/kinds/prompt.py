"""Kind `prompt`: one prompt to an agent's CLI, in an empty folder, without a repository.

Off unless the policy names it. No sandbox is around the CLI: a host or a sender that must have one
refuses it. The CLI gets no permission beyond its own defaults; its tree, its time, what it inherits
and what it prints are bounded as an agent's are, and the governor counts it as one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contracts import limits
from contracts.clock import Clock
from contracts.errors import LaunchRefused, NotInstalled
from contracts.plain_result import PlainResult
from contracts.prompt import Harness, PromptRequest
from contracts.run_agent import AgentName, Risk, Status
from runagent.agents import AGENTS, AgentPreset
from runagent.agents.phrases import is_a_limit_report
from runagent.clis import cli_of
from runagent.clis.prompt_lane import LANES
from runagent.environment import agent_environment
from runagent.process import EndState, ProcessOutcome, system_runner
from runagent.prompt_run import Answered, PromptOrder, run_prompt
from runagent.tails import keep_tails
from validation.inert import cut, inert, one_line
from validation.policy import HostPolicy
from validation.policy_rules import decide
from validation.redaction import Redactor
from worker.governor.choice import host_governor
from worker.kinds.questions import question_of
from worker.runs.runs import Runs
from worker.settings import HostSettings, host_redactor
from worker.verification import VerifiedJob

_OLLAMA: Final = ("OLLAMA_HOST", "OLLAMA_MODELS")
_LAST_LINES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTask:
    """An admitted prompt."""

    job_id: str
    request: PromptRequest
    settings: HostSettings
    environment: Mapping[str, str]  # this process's own
    redactor: Redactor
    clock: Clock
    runs: Runs

    def run(self) -> PlainResult:
        """See Task.run."""
        order = self._order()
        governor = host_governor(self.settings, system_runner(), self.environment, self.clock)
        try:
            answered = run_prompt(
                order,
                governor,
                lambda spec: self.runs.perform(self.job_id, spec, role="prompt"),
            )
        except LaunchRefused as error:
            return self._result(Status.FAILED, str(error), risks=(_risk(error.kind, str(error)),))
        return self._told(answered, order.folder)

    def _order(self) -> PromptOrder:
        harness = Harness(self.request.agent)
        preset = _preset(self.settings, harness)
        extra = (*self.settings.allowed_variables, *preset.env)
        source, names = dict(self.environment), extra
        if harness is Harness.OLLAMA:
            names = (*extra, *_OLLAMA)
        else:
            defaults = AGENTS[AgentName(harness.value)].environment
            source, names = {**defaults, **source}, (*extra, *defaults)
        environment = agent_environment(source, extra_names=names)
        return PromptOrder(
            job_id=self.job_id,
            harness=harness,
            prompt=self.request.prompt,
            program=_find(preset.command[0], environment),
            command=preset.command,
            model=self.request.model or preset.model,
            variant=preset.variant,
            environment=environment,
            folder=str(self.settings.runtime_dir(self.job_id)),
            limit_s=self.request.effective_timeout_s,
        )

    def _told(self, answered: Answered, folder: str) -> PlainResult:
        if answered.outcome is None:
            phrase = one_line(answered.denied.phrase if answered.denied else "", 500)
            why = phrase or "the governor denied this start"
            return self._result(Status.RATE_LIMITED, why, risks=(_risk("rate_limited", why),))
        outcome = answered.outcome
        risks = list(keep_tails(folder, "prompt", outcome))
        if answered.missing:
            message = (
                f"the governor did not answer, so this start was not booked ({answered.missing})"
            )
            risks.append(_risk("governor_missing", message))
        status, why, code = self._judged(outcome)
        if code:
            risks.insert(0, _risk(code, why))
        return self._result(status, why, outcome=outcome, risks=tuple(risks))

    def _judged(self, outcome: ProcessOutcome) -> tuple[Status, str, str]:
        agent = self.request.agent
        if outcome.state is EndState.NOT_STARTED:
            return (
                Status.FAILED,
                f"{agent} could not be started: {outcome.why}",
                "agent_not_started",
            )
        if outcome.state is EndState.TIMED_OUT:
            limit_s = self.request.effective_timeout_s
            return Status.TIMED_OUT, f"{agent} was ended after {limit_s} s", "timed_out"
        if outcome.state is EndState.ABORTED:
            return Status.FAILED, f"{agent} was ended: {outcome.why}", "interrupted"
        if outcome.exit_code == 0:
            return Status.COMPLETED, f"{agent} answered", ""
        why = f"{agent} ended with exit code {outcome.exit_code}"
        if any(is_a_limit_report(line) for line in _last_lines(outcome)):
            return Status.RATE_LIMITED, f"{why} at a limit", "rate_limited"
        return Status.FAILED, why, "agent_failed"

    def _result(
        self,
        status: Status,
        summary: str,
        *,
        outcome: ProcessOutcome | None = None,
        risks: tuple[Risk, ...] = (),
    ) -> PlainResult:
        return PlainResult(
            status=status,
            summary=self.redactor.redact(summary),
            exitCode=None if outcome is None else outcome.exit_code,
            stdoutTail="" if outcome is None else self._shown(outcome.stdout),
            stderrTail="" if outcome is None else self._shown(outcome.stderr),
            risks=risks,
            jobId=self.job_id,
            host=self.settings.host,
        )

    def _shown(self, printed: bytes) -> str:
        text = self.redactor.redact(printed.decode("utf-8", "replace"))
        return cut(inert(text), limits.PLAIN_TAIL_CHARS)


class PromptKind:
    """Prompts on this host."""

    def __init__(
        self,
        settings: HostSettings,
        runs: Runs,
        environment: Mapping[str, str],
        clock: Clock,
    ) -> None:
        """`environment` is this process's own: a CLI inherits from it by allow-list."""
        self._settings = settings
        self._runs = runs
        self._environment = environment
        self._clock = clock

    def admit(self, job: VerifiedJob, policy: HostPolicy) -> PromptTask:
        """See JobKind.admit."""
        claims = job.claims
        decide(policy, question_of(claims, self._settings))
        return PromptTask(
            job_id=claims.jti,
            request=PromptRequest.model_validate(claims.payload),
            settings=self._settings,
            environment=self._environment,
            redactor=host_redactor(self._settings, self._environment),
            clock=self._clock,
            runs=self._runs,
        )


def _preset(settings: HostSettings, harness: Harness) -> AgentPreset:
    """Return how this host starts `harness`; of an agent's preset the flags are left out: they are
    permissions for a worktree."""
    if harness is Harness.OLLAMA:
        return AgentPreset((LANES[harness].program,), ())
    name = AgentName(harness.value)
    preset = settings.presets[name]
    variant = cli_of(name, preset).cli
    return AgentPreset(preset.command, (), variant=variant, model=preset.model, env=preset.env)


def _find(name: str, environment: Mapping[str, str]) -> str:
    """Return the absolute path of a program: only absolute entries of PATH are searched."""
    entries = environment.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(entry for entry in entries if Path(entry).is_absolute())
    found = None
    if Path(name).is_absolute() or os.path.basename(name) == name:
        found = shutil.which(name, path=path)
    if found is None:
        raise NotInstalled(f"the program {name} is not on this host's PATH", remedy="install it")
    return found


def _last_lines(outcome: ProcessOutcome) -> list[str]:
    printed = (outcome.stderr, outcome.stdout)
    return [
        line
        for data in printed
        for line in data.decode("utf-8", "replace").splitlines()[-_LAST_LINES:]
    ]


def _risk(code: str, message: str) -> Risk:
    return Risk(code=code, message=message)
