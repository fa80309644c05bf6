"""Kind `shell`: one command of the sender's for this host's own shell, with this user's rights.

Off unless the policy names it. The command runs in no sandbox: a host or a sender that must have
one refuses it. Its tree, its time and what it prints are bounded as an agent's are.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contracts import limits
from contracts.errors import Unavailable
from contracts.plain_result import PlainResult
from contracts.run_agent import Risk, Status
from contracts.shell import ShellRequest
from dispatch.private_files import make_private_folder
from runagent.environment import shell_environment
from runagent.process import EndState, ProcessOutcome, ProcessSpec
from runagent.tails import keep_tails
from validation.inert import cut, inert
from validation.policy import HostPolicy
from validation.policy_rules import decide
from validation.redaction import Redactor
from worker.kinds.questions import on_this_host, question_of
from worker.runs.runs import Runs
from worker.settings import HostSettings, host_redactor
from worker.verification import VerifiedJob

_EMPTY: Final = "empty"  # the folder of a command that names none
# Each shell's own way to take one command and ask nothing.
_WINDOWS: Final = ("pwsh", "-NoLogo", "-NoProfile", "-NonInteractive", "-Command")
_POSIX: Final = ("sh", "-c")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellTask:
    """An admitted command. `cwd` is free of links, "" for an empty folder of its own."""

    job_id: str
    host: str
    request: ShellRequest
    cwd: str
    folder: Path  # the job's private one
    environment: Mapping[str, str]
    redactor: Redactor
    runs: Runs

    def run(self) -> PlainResult:
        """See Task.run."""
        argv = _shell_argv(self.environment, self.request.command)
        spec = ProcessSpec(
            argv=argv,
            cwd=self._working_folder(),
            env=self.environment,
            timeout_s=self.request.effective_timeout_s,
        )
        outcome = self.runs.perform(self.job_id, spec, role="shell")
        if outcome.state is EndState.NOT_STARTED:
            raise Unavailable(f"the shell could not be started: {outcome.why}")
        risks = keep_tails(str(self.folder), "shell", outcome)
        return self._told(outcome, risks)

    def _working_folder(self) -> str:
        if not self.cwd:
            make_private_folder(self.folder / _EMPTY)
            return str(self.folder / _EMPTY)
        make_private_folder(self.folder)
        # What was decided about is this folder: one that leads elsewhere by now was not.
        if not os.path.isdir(self.cwd) or os.path.realpath(self.cwd) != self.cwd:
            raise Unavailable(
                "the working folder is not there", remedy="name a folder that is on this host"
            )
        return self.cwd

    def _told(self, outcome: ProcessOutcome, risks: list[Risk]) -> PlainResult:
        status, why = self._judged(outcome)
        if status is not Status.COMPLETED:
            code = "timed_out" if status is Status.TIMED_OUT else "command_failed"
            risks = [Risk(code=code, message=why), *risks]
        return PlainResult(
            status=status,
            summary=why,
            exitCode=outcome.exit_code,
            stdoutTail=self._shown(outcome.stdout),
            stderrTail=self._shown(outcome.stderr),
            risks=tuple(risks),
            jobId=self.job_id,
            host=self.host,
        )

    def _judged(self, outcome: ProcessOutcome) -> tuple[Status, str]:
        if outcome.state is EndState.TIMED_OUT:
            limit_s = self.request.effective_timeout_s
            return Status.TIMED_OUT, f"the command was ended after {limit_s} s"
        if outcome.state is EndState.ABORTED:
            return Status.FAILED, f"the command was ended: {outcome.why}"
        how = f"the command ended with exit code {outcome.exit_code}"
        return Status.COMPLETED if outcome.exit_code == 0 else Status.FAILED, how

    def _shown(self, printed: bytes) -> str:
        text = self.redactor.redact(printed.decode("utf-8", "replace"))
        return cut(inert(text), limits.PLAIN_TAIL_CHARS)


class ShellKind:
    """Commands on this host."""

    def __init__(self, settings: HostSettings, runs: Runs, environment: Mapping[str, str]) -> None:
        """`environment` is this process's own: a command inherits from it by allow-list."""
        self._settings = settings
        self._runs = runs
        self._environment = environment

    def admit(self, job: VerifiedJob, policy: HostPolicy) -> ShellTask:
        """See JobKind.admit."""
        claims, settings = job.claims, self._settings
        question = question_of(claims, settings)
        decide(policy, question)
        return ShellTask(
            job_id=claims.jti,
            host=settings.host,
            request=ShellRequest.model_validate(on_this_host(claims, "cwd", settings)),
            cwd=question.folder or "",
            folder=settings.runtime_dir(claims.jti),
            environment=shell_environment(self._environment, settings.allowed_variables),
            redactor=host_redactor(settings, self._environment),
            runs=self._runs,
        )


def _shell_argv(environment: Mapping[str, str], command: str) -> tuple[str, ...]:
    """Return what runs `command`. The shell is looked for in absolute entries of PATH alone."""
    name, *options = _WINDOWS if sys.platform == "win32" else _POSIX
    entries = environment.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(entry for entry in entries if os.path.isabs(entry))
    program = shutil.which(name, path=path)
    if program is None:
        raise Unavailable(f"{name} is not on this host's PATH", remedy=f"install {name} there")
    return (program, *options, command)
