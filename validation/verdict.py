"""The verdict: what the host saw goes in, status, risks and the need for review come out.

Owns the rules of the five statuses. Pure: it sees facts and returns values. It must never weigh
what the agent says of itself, and never call a run clean by the absence of a fact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from contracts.run_agent import CommandState, Risk, Status, Validation, ValidationSource

RETRIED: Final = "first attempt exited nonzero; result reflects the retry in the same worktree"
NO_CHANGES: Final = "the agent exited 0 but produced no file changes"


class AgentEnd(StrEnum):
    """How the last attempt of the agent ended, as the classification has it."""

    EXITED_OK = "exited_ok"
    FAILED = "failed"  # nonzero, or exit 0 while its events say that the turn failed
    RATE_LIMITED = "rate_limited"
    APPROVAL_REQUIRED = "approval_required"
    TIMED_OUT = "timed_out"
    ABORTED = "aborted"  # we stopped it: a drain, a person, a lost listener
    NOT_STARTED = "not_started"  # no program, or the staged prompt could not be read back


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """The agent's part: how it ended, its exit code (None when there is none), its attempts, and
    the reason in words where the host has one."""

    end: AgentEnd
    exit_code: int | None
    attempts: int = 1
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChange:
    """The evidence of the agent's own change, taken before the validation ran.

    `made`: something that git does not ignore changed, commits included. `survives`: it is still
    there after validation. `ignored_only`: only ignored files changed.
    """

    made: bool
    survives: bool
    ignored_only: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict. `known_risks` are the messages of `risks`."""

    status: Status
    risks: tuple[Risk, ...]
    needs_human_review: bool

    @property
    def known_risks(self) -> tuple[str, ...]:
        """Return the risks as the contract's strings, each once."""
        return tuple(dict.fromkeys(risk.message for risk in self.risks))


def goes_on_to_validation(agent: AgentRun) -> bool:
    """Say whether validation runs: always after exit 0, and never otherwise. A run that we stopped
    is not judged by its exit code."""
    return agent.exit_code == 0 and agent.end not in _NOT_BY_EXIT_CODE


def may_retry(agent: AgentRun) -> bool:
    """Say whether the agent gets its second and last attempt: only after a plain nonzero exit."""
    plain = agent.end in (AgentEnd.FAILED, AgentEnd.EXITED_OK)
    return plain and agent.exit_code not in (0, None) and agent.attempts < 2


def judge(
    agent: AgentRun, validation: Validation, change: AgentChange, risks: Sequence[Risk] = ()
) -> Judgement:
    """Return the verdict on one run.

    `risks` are those already collected, in the order in which they were seen; the judge's own
    follow, and each (code, message) stands once. Review is needed unless the run is completed, its
    validation ran and passed, the agent's change is there, and no risk at all was recorded.
    """
    status, reasons = _status(agent, validation)
    was_not_seen = any(risk.code in _NOT_SEEN for risk in risks)
    changes = _change_risks(agent, change, was_not_seen=was_not_seen)
    found = _unique([*risks, *_attempt_risks(agent), *reasons, *changes])
    clean = (
        status is Status.COMPLETED
        and _passed(validation)
        and change.made
        and change.survives
        and not change.ignored_only
        and not found
    )
    return Judgement(status=status, risks=found, needs_human_review=not clean)


# With one of these, "no changes" would be a claim that nobody checked.
_NOT_SEEN: Final = frozenset({"evidence_incomplete", "evidence_missing", "could_not_look"})
_NOT_BY_EXIT_CODE: Final = frozenset({AgentEnd.TIMED_OUT, AgentEnd.ABORTED, AgentEnd.NOT_STARTED})
# Only on a nonzero exit, or when our own governor refused before a start: the agent's words alone
# must not choose its status.
_BY_ITS_WORDS: Final = {
    AgentEnd.RATE_LIMITED: Status.RATE_LIMITED,
    AgentEnd.APPROVAL_REQUIRED: Status.APPROVAL_REQUIRED,
}
_ENDS: Final = {
    AgentEnd.FAILED: ("agent_failed", "the agent failed"),
    AgentEnd.EXITED_OK: ("agent_failed", "the agent failed"),
    AgentEnd.RATE_LIMITED: ("rate_limited", "the agent reached a usage limit"),
    AgentEnd.APPROVAL_REQUIRED: ("approval_required", "the agent stopped at an approval"),
    AgentEnd.TIMED_OUT: ("timed_out", "the agent reached its time limit and was stopped"),
    AgentEnd.ABORTED: ("interrupted", "the run was stopped before the agent was done"),
    AgentEnd.NOT_STARTED: ("agent_not_started", "the agent could not be started"),
}


def _status(agent: AgentRun, validation: Validation) -> tuple[Status, list[Risk]]:
    if goes_on_to_validation(agent):
        status, reasons = _validated(validation)
        if agent.end is AgentEnd.FAILED:
            return Status.FAILED, [_end_risk(agent), *reasons]
        if agent.end in _BY_ITS_WORDS:
            message = f"the agent exited 0, so that its report of '{agent.end}' was not followed"
            reasons.insert(0, Risk(code="report_not_followed", message=message))
        return status, reasons
    if agent.end is AgentEnd.TIMED_OUT:
        return Status.TIMED_OUT, [_end_risk(agent)]
    return _BY_ITS_WORDS.get(agent.end, Status.FAILED), [_end_risk(agent)]


def _validated(validation: Validation) -> tuple[Status, list[Risk]]:
    """Judge an exit 0 by the host's own validation."""
    states = {command.state for command in validation.commands}
    if validation.source is ValidationSource.NONE:
        return Status.COMPLETED, [_skipped("nothing to run was found")]
    for state, risk in _VALIDATION_FAILURES.items():
        if state in states:
            return Status.FAILED, [risk]
    if _passed(validation):
        return Status.COMPLETED, []
    if validation.source is ValidationSource.OVERRIDE:
        message = "the requested validation command did not run"
        return Status.FAILED, [Risk(code="validation_not_run", message=message)]
    return Status.COMPLETED, [_skipped("a tool for the detected project did not run on this host")]


_VALIDATION_FAILURES: Final = {
    CommandState.FAILED: Risk(code="validation_failed", message="validation failed"),
    CommandState.TIMED_OUT: Risk(
        code="validation_timed_out", message="validation reached its time limit and was stopped"
    ),
}


def _passed(validation: Validation) -> bool:
    return (
        validation.ran
        and validation.source is not ValidationSource.NONE
        and bool(validation.commands)
        and all(command.state is CommandState.PASSED for command in validation.commands)
    )


def _skipped(why: str) -> Risk:
    return Risk(code="validation_skipped", message=f"validation was skipped: {why}")


def _end_risk(agent: AgentRun) -> Risk:
    code, message = _ENDS[agent.end]
    if agent.end is AgentEnd.FAILED and agent.attempts > 1:
        message = "the agent failed twice"
    details = [f"exit {agent.exit_code}"] if agent.exit_code is not None else []
    details += [agent.why] if agent.why else []
    return Risk(code=code, message=f"{message} ({', '.join(details)})" if details else message)


def _attempt_risks(agent: AgentRun) -> list[Risk]:
    return [Risk(code="retried", message=RETRIED)] if agent.attempts > 1 else []


def _change_risks(agent: AgentRun, change: AgentChange, *, was_not_seen: bool) -> list[Risk]:
    if not goes_on_to_validation(agent):
        return []
    if change.ignored_only:
        message = "the agent changed only files that git ignores"
        return [Risk(code="ignored_only", message=message)]
    if not change.made:
        if was_not_seen:
            return []  # nothing was seen because nobody could look: that is told already
        return [Risk(code="no_changes", message=NO_CHANGES)]
    if not change.survives:
        message = "what the agent changed is no longer there after validation"
        return [Risk(code="change_undone", message=message)]
    return []


def _unique(risks: Iterable[Risk]) -> tuple[Risk, ...]:
    """Keep the first of each (code, message); a skip is told once, in the first one's words."""
    kept: dict[tuple[str, str], Risk] = {}
    skip_told = False
    for risk in risks:
        is_skip = risk.code == "validation_skipped"
        if is_skip and skip_told:
            continue
        skip_told = skip_told or is_skip
        kept.setdefault((risk.code, risk.message), risk)
    return tuple(kept.values())
