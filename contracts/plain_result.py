"""What a host found of a job of any kind but `run_agent`: a status, an exit code and two tails.

Owns its shape in a host's journal, and how it travels in the outer result. A job of any kind that
was refused, lost or ended by its sender is told in the same words; here they become plain.
"""

from __future__ import annotations

from typing import TypeAlias

from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr

from contracts.dispatch_result import DispatchResult
from contracts.kinds import Kind, canonical_kind
from contracts.run_agent import Risk, RunAgentResult, Status


class PlainResult(BaseModel):
    """The result of a job without a worktree and without a verdict.

    `exitCode` is that of what was run, None when nothing was or when it left none.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    status: Status
    summary: StrictStr
    exitCode: StrictInt | None = None
    stdoutTail: StrictStr = ""
    stderrTail: StrictStr = ""
    risks: tuple[Risk, ...] = ()
    jobId: StrictStr = ""
    host: StrictStr = ""

    @property
    def needs_human_review(self) -> bool:
        """Say whether a person has to look: whenever it did not complete."""
        return self.status is not Status.COMPLETED

    @property
    def worktreePath(self) -> str:  # noqa: N802 - as the contract's result has it
        """Return "": there is none."""
        return ""

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the JSON, on one line unless `indent` is given."""
        return self.model_dump_json(indent=indent)


Outcome: TypeAlias = RunAgentResult | PlainResult


def is_plain(kind: str) -> bool:
    """Say whether results of `kind` are plain ones."""
    return canonical_kind(kind) != Kind.RUN_AGENT


def as_kept(kind: str, outcome: Outcome) -> Outcome:
    """Return `outcome` in the shape of its kind. An end that never was a run (refused, lost,
    expired) comes as a `run_agent` result whatever the kind is."""
    if not is_plain(kind) or isinstance(outcome, PlainResult):
        return outcome
    return PlainResult(
        status=outcome.status,
        summary=outcome.summary,
        risks=outcome.risks,
        jobId=outcome.jobId,
        host=outcome.host,
    )


def read_outcome(kind: str, kept: bytes | str) -> Outcome:
    """Return the result of a job of `kind` in its JSON. Raises pydantic's ValidationError."""
    model = PlainResult if is_plain(kind) else RunAgentResult
    return model.model_validate_json(kept)


def unpacked(outer: DispatchResult, *, host: str) -> Outcome:
    """Return the result that travelled in `outer`. Raises pydantic's ValidationError.

    An outer result of a plain kind that names no status has the one that `ok` says.
    """
    if not is_plain(outer.kind):
        return RunAgentResult.model_validate_json(outer.stdoutTail)
    return PlainResult(
        status=outer.status or (Status.COMPLETED if outer.ok else Status.FAILED),
        summary=outer.summary,
        exitCode=outer.exitCode,
        stdoutTail=outer.stdoutTail,
        stderrTail=outer.stderrTail,
        risks=outer.risks,
        jobId=outer.jobId,
        host=host,
    )
