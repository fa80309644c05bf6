"""What one run has found out so far, and the result that can be made of it at any moment.

Owns the state of a run and its translation into the contract's result. Wherever a run ends, a
refusal, a stop or an error of ours included, a whole result comes out of here. It must never judge
by itself: `validation.verdict` does.
"""

from __future__ import annotations

import dataclasses
import logging
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from contracts.errors import FleetError, Interrupted, NotInstalled
from contracts.reason import Reason, ReasonCode
from contracts.run_agent import Rename, Risk, RunAgentResult, Validation
from contracts.sandbox import SandboxReport
from contracts.usage import Usage
from runagent.agents.usage_count import total
from runagent.attempt_end import Attempted
from runagent.evidence.weighing import Evidence
from runagent.ports import RunOrder
from runagent.shown_path import display_path
from runagent.summary import summarise
from runagent.trees.worktree import Worktree
from validation.admission import refused_result
from validation.bounds import bounded
from validation.redaction import Redactor, redacted_result
from validation.verdict import AgentChange, AgentEnd, AgentRun, judge

_LOG: Final = logging.getLogger(__name__)
_IGNORED_SHOWN: Final = 500  # what git ignores is no work: a long list of it is no alarm
_NO_EVIDENCE = Risk(
    code="evidence_missing", message="the host could not look at what the agent changed"
)


@dataclass(slots=True)
class Findings:
    """The state of a run. `began` is a monotonic time; `launches` counts starts that happened."""

    order: RunOrder
    began: float
    worktree: Worktree | None = None
    agent: AgentRun = field(
        default_factory=lambda: AgentRun(end=AgentEnd.NOT_STARTED, exit_code=None, attempts=0)
    )
    launches: int = 0
    session_id: str = ""
    agent_version: str = ""
    reason: Reason | None = None
    usage: Usage | None = None
    unknown_events: int = 0
    summary: str = ""
    evidence: Evidence | None = None
    validation: Validation = field(default_factory=Validation)
    sandbox: SandboxReport = field(default_factory=SandboxReport)
    tests_attempted: tuple[str, ...] = ()
    risks: list[Risk] = field(default_factory=list)
    refusal: FleetError | None = None
    notes: list[Risk] = field(default_factory=list)
    redactor: Redactor = field(default_factory=Redactor)

    def add_risks(self, risks: Iterable[Risk]) -> None:
        """Record risks, in the order in which they were seen."""
        self.risks.extend(risks)

    def take_attempt(self, attempted: Attempted) -> None:
        """Take in how an attempt ended."""
        self.launches += attempted.launched
        self.agent = attempted.run
        self.session_id = attempted.reading.session_id or self.session_id
        self.agent_version = attempted.reading.agent_version or self.agent_version
        self.reason = attempted.reason
        told = [part for part in (self.usage, attempted.reading.usage) if part is not None]
        self.usage = total(told) if told else None
        self.unknown_events += attempted.reading.unknown
        self.summary = summarise(attempted, self.redactor)
        self.add_risks(attempted.risks)

    def stop(self, error: FleetError) -> None:
        """Take in a refusal, a failed check or a stop that ended the run before its end."""
        self.refusal = error
        self.summary = self.summary or str(error)
        if isinstance(error, Interrupted):
            self.interrupt(error.message)
        else:
            if isinstance(error, NotInstalled):
                self.reason = Reason(code=ReasonCode.NOT_INSTALLED.value, message=error.message)
            self.risks.append(Risk(code=error.kind, message=str(error)))
            self._end(AgentEnd.FAILED, "")

    def interrupt(self, why: str) -> None:
        """Take in that the run was stopped from outside."""
        self.reason = Reason(code=ReasonCode.STOPPED_BY_US.value, message=why)
        self._end(AgentEnd.ABORTED, why)

    def break_off(self, error: Exception) -> None:
        """Take in an error of ours. It is logged by its kind and its place: its text may quote
        anything."""
        places = traceback.extract_tb(error.__traceback__)
        where = " < ".join(f"{Path(at.filename).name}:{at.lineno}" for at in reversed(places))
        _LOG.error("job %s broke off: %s at %s", self.order.job_id, type(error).__name__, where)
        message = f"an error of fleet-dispatch itself ({type(error).__name__}); see the host's log"
        self.risks.append(Risk(code="internal_error", message=message))
        self.summary = self.summary or f"The run broke off: {message}."
        self._end(AgentEnd.FAILED, "the run broke off")

    def _end(self, end: AgentEnd, why: str) -> None:
        """Let no earlier exit 0 stand for a run that did not come to its end."""
        if end is AgentEnd.FAILED and not self.launches:
            end = AgentEnd.NOT_STARTED
        self.agent = dataclasses.replace(self.agent, end=end, why=why)

    def result(self, now: float) -> RunAgentResult:
        """Return the result of the run as it stands at the monotonic time `now`, redacted before
        anything of it is cut to its size."""
        return bounded(redacted_result(self._whole_result(now), self.redactor))

    def _whole_result(self, now: float) -> RunAgentResult:
        seconds = round(max(0.0, now - self.began), 3)
        order = self.order
        if self._was_refused():
            return refused_result(
                order.request.to_payload(),
                self.refusal or (),
                job_id=order.job_id,
                host=order.host,
                seconds=seconds,
            ).model_copy(update={"reason": self.reason})
        if self.evidence is None and self.launches:
            self.risks.append(_NO_EVIDENCE)
        judgement = judge(self.agent, self.validation, _change(self.evidence), self.risks)
        return RunAgentResult(
            status=judgement.status,
            summary=self.summary,
            tests_attempted=self.tests_attempted,
            known_risks=judgement.known_risks,
            needs_human_review=judgement.needs_human_review,
            agent=order.request.agent,
            durationSeconds=seconds,
            jobId=order.job_id,
            mode=order.request.effective_mode,
            host=order.host,
            attempts=self.agent.attempts,
            sessionId=self.session_id,
            exitCode=self.agent.exit_code,
            risks=judgement.risks,
            notes=tuple(self.notes),
            reason=self.reason,
            usage=self.usage,
            agentVersion=self.agent_version,
            unknown_events=self.unknown_events,
            validation=self.validation,
            sandbox=self.sandbox,
            **_place(self.worktree),
            **_changes(self.evidence),
        )

    def _was_refused(self) -> bool:
        """Say whether nothing was made and nothing was started, by a decision and not by a stop."""
        nothing = self.worktree is None and not self.launches
        return nothing and self.refusal is not None and not isinstance(self.refusal, Interrupted)


def _change(evidence: Evidence | None) -> AgentChange:
    if evidence is None:
        return AgentChange(made=False, survives=False)
    return AgentChange(
        made=bool(evidence.agent_changed),
        survives=evidence.agent_change_survives,
        ignored_only=evidence.ignored_only,
    )


def _place(worktree: Worktree | None) -> dict[str, Any]:
    if worktree is None:
        return {"worktreePath": ""}
    return {
        "worktreePath": worktree.path,
        "baseRef": worktree.base_ref,
        "baseCommit": worktree.base_commit,
        "branch": worktree.branch,
    }


def _changes(evidence: Evidence | None) -> dict[str, Any]:
    if evidence is None:
        return {"changed_files": ()}
    paths = _Paths()
    return {
        "changed_files": paths.show(evidence.changed),
        "agent_changed_files": paths.show(evidence.agent_changed),
        "ignored_changed_files": paths.show(evidence.ignored_changed[:_IGNORED_SHOWN]),
        "ignored_changed_files_total": len(evidence.ignored_changed),
        "validator_changed_files": paths.show(evidence.validator_changed),
        "renames": paths.show_renames(evidence.renames),
        "headCommit": evidence.head_commit,
        "paths_base64": paths.base64,
    }


class _Paths:
    """Shows raw paths, and remembers the bytes of those that are not UTF-8."""

    def __init__(self) -> None:
        self.base64: dict[str, str] = {}

    def show(self, paths: Iterable[bytes]) -> tuple[str, ...]:
        return tuple(self._show(path) for path in paths)

    def show_renames(self, renames: Iterable[tuple[bytes, bytes]]) -> tuple[Rename, ...]:
        return tuple(Rename(source=self._show(old), target=self._show(new)) for old, new in renames)

    def _show(self, path: bytes) -> str:
        text, raw = display_path(path)
        if raw is not None:
            self.base64[text] = raw
        return text
