"""The ends of jobs that their sender took back: one that never started, and one that was stopped.

Owns the words of both. A run that had come to its own end before the stop reached it keeps the
result that it has: what was done is never told as something else.
"""

from __future__ import annotations

from typing import Final

from contracts.errors import Refused
from contracts.plain_result import Outcome
from contracts.risk_codes import RiskCode
from contracts.run_agent import Risk, RunAgentResult, Status
from validation.admission import refused_result
from validation.inert import one_line
from worker.journal.cancels import Cancel

# How a stopped run tells of its stop, or whoever found it without an end.
_STOPS: Final = frozenset(
    {
        RiskCode.INTERRUPTED,
        RiskCode.RUN_PROCESS_DIED,
        RiskCode.LISTENER_LOST,
        RiskCode.LISTENER_FAILED,
        RiskCode.CANCELLED,
    }
)
_WHY_MAX_CHARS: Final = 300


def never_started(payload: object, cancel: Cancel, *, host: str) -> RunAgentResult:
    """Return the `failed` result of a job that was taken back before this host started it."""
    error = Refused(f"{_said(cancel)} before it was started", code=RiskCode.CANCELLED)
    refused = refused_result(payload, error, job_id=cancel.job, host=host)
    risk = Risk(code=RiskCode.CANCELLED, message=error.message)
    return refused.model_copy(update={"risks": (risk,), "known_risks": (risk.message,)})


def as_cancelled(result: Outcome, cancel: Cancel) -> Outcome:
    """Return `result` as that of a cancelled job, if it tells of a stop; else as it is."""
    stops = [risk for risk in result.risks if risk.code in _STOPS]
    if result.status is not Status.FAILED or not stops:
        return result
    kept = f"; its work is kept in {result.worktreePath}" if result.worktreePath else ""
    risk = Risk(code=RiskCode.CANCELLED, message=f"{_said(cancel)}{kept}")
    changes: dict[str, object] = {
        "summary": f"{risk.message}. {result.summary}".strip(),
        "risks": (risk, *(item for item in result.risks if item.code not in _STOPS)),
    }
    if isinstance(result, RunAgentResult):
        old = {stop.message for stop in stops}
        known = tuple(text for text in result.known_risks if text not in old)
        changes |= {"known_risks": (risk.message, *known), "needs_human_review": True}
    return result.model_copy(update=changes)


def _said(cancel: Cancel) -> str:
    why = one_line(cancel.why, _WHY_MAX_CHARS)
    return f"its sender took the job back{f' ({why})' if why else ''}"
