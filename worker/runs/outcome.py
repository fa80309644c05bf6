"""From a run's result to the signed message that goes back, and the results of what never ran.

Owns the shape of the outer result and of the claims it is signed with, and the `failed` results
that the listener itself writes when a run process left none. Judges no work.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from contracts.dispatch_result import DispatchResult, ResultClaims
from contracts.envelope import RESULT_TYPE, Signer, seal
from contracts.errors import ExitCode, Refused
from contracts.plain_result import Outcome, PlainResult, read_outcome
from contracts.risk_codes import RiskCode
from contracts.run_agent import Risk, RunAgentResult, Status
from validation.admission import refused_result
from worker.journal.records import JobRecord

EXIT_CODES: Final[Mapping[Status, ExitCode]] = {
    Status.COMPLETED: ExitCode.OK,
    Status.FAILED: ExitCode.FAILED,
    Status.TIMED_OUT: ExitCode.FAILED,
    Status.RATE_LIMITED: ExitCode.RATE_LIMITED,
    Status.APPROVAL_REQUIRED: ExitCode.APPROVAL_REQUIRED,
}

_ENDS_OF_THEIR_OWN: Final = frozenset(
    {
        "cancelled",
        "interrupted",
        "internal_error",
        "run_process_died",
        "listener_failed",
        "listener_lost",
    }
)


def lost_run(
    record: JobRecord,
    *,
    host: str,
    worktree: str,
    code: str,
    why: str,
    more: tuple[Risk, ...] = (),
) -> RunAgentResult:
    """Return the `failed` result of a run whose process ended without one.

    `worktree` is the tree it left behind, "" when there is none: the work in it is kept. `more` are
    risks beside that of `code`.
    """
    kept = f"; its work is kept in {worktree}" if worktree else ""
    risk = Risk(code=code, message=f"{why}{kept}")
    return RunAgentResult(
        status=Status.FAILED,
        summary=f"{why}{kept}. The job was not started again.",
        changed_files=(),
        tests_attempted=(),
        known_risks=(risk.message, *(other.message for other in more)),
        needs_human_review=True,
        agent=record.facts.get("agent", ""),
        durationSeconds=0.0,
        worktreePath=worktree,
        jobId=record.jti,
        mode=record.facts.get("mode", ""),
        host=host,
        attempts=record.attempt,
        risks=(risk, *more),
    )


def expired_job(payload: object, *, job_id: str, host: str) -> RunAgentResult:
    """Return the `failed` result of a job that came to its host when its time was over."""
    error = Refused(
        "its time ran out before this host took it",
        code=RiskCode.EXPIRED,
        remedy="send it anew, with a longer --ttl if the host is often away",
    )
    refused = refused_result(payload, error, job_id=job_id, host=host)
    risk = Risk(code=RiskCode.EXPIRED, message=str(error))
    return refused.model_copy(update={"risks": (risk,), "known_risks": (risk.message,)})


def was_declined(result: Outcome) -> bool:
    """Say whether this host is why nothing was started: then another host may still do the job.

    A stop by a person and a mistake of ours are ends of the job, and no host's reason. A plain
    result is one of something that was started.
    """
    if isinstance(result, PlainResult):
        return False
    if result.status is not Status.FAILED or result.attempts or result.worktreePath:
        return False
    return not {risk.code for risk in result.risks} & _ENDS_OF_THEIR_OWN


def seal_result(record: JobRecord, result: bytes, signer: Signer, *, host: str, now: float) -> str:
    """Return the signed envelope of a result: bound to the job's exact bytes, for its sender."""
    found = read_outcome(record.kind, result)
    outer = DispatchResult(
        jobId=record.jti,
        kind=record.kind,
        target=record.aud,
        ok=found.status is Status.COMPLETED,
        startedAt=_rfc3339(record.claimed_at),
        finishedAt=_rfc3339(now),
        **_told(found, result),
    )
    claims = ResultClaims(
        iss=host,
        aud=record.iss,
        jti=record.jti,
        iat=int(now),
        jobSha256=record.job_sha256,
        payload=outer,
    )
    return seal(claims.model_dump_json().encode("utf-8"), RESULT_TYPE, [signer])


def _told(found: Outcome, kept: bytes) -> dict[str, Any]:
    """Return the part of the outer result that differs by kind."""
    code = int(EXIT_CODES[found.status])
    if isinstance(found, RunAgentResult):
        return {"exitCode": code, "stdoutTail": kept.decode("utf-8")}
    return {
        "exitCode": code if found.exitCode is None else found.exitCode,
        "stdoutTail": found.stdoutTail,
        "stderrTail": found.stderrTail,
        "status": found.status,
        "summary": found.summary,
        "risks": found.risks,
    }


def _rfc3339(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
