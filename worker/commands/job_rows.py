"""A job of this host's journal as people and programs see it. Pure: from records to documents.

Times are UTC. What is shown comes from the journal alone; nothing of a task or a key is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contracts.plain_result import Outcome, read_outcome
from dispatch.times import rfc3339
from worker.journal.processes import RecordedProcess
from worker.journal.records import LOCAL_SENDER, JobRecord, Transition
from worker.journal.trees import TreeRecord


def job_row(record: JobRecord) -> dict[str, Any]:
    """Return one job in short."""
    return {
        "jobId": record.jti,
        "state": record.state.value,
        "status": status_of(record),
        "sender": "" if record.iss == LOCAL_SENDER else record.iss,
        "lane": record.lane,
        "kind": record.kind,
        "agent": record.facts.get("agent", ""),
        "ticket": record.facts.get("ticket", ""),
        "attempts": record.attempt,
        "claimedAt": rfc3339(record.claimed_at),
        "delivered": record.published_at is not None,
    }


def job_document(
    record: JobRecord,
    history: Sequence[Transition],
    processes: Sequence[RecordedProcess],
    tree: TreeRecord | None,
) -> dict[str, Any]:
    """Return all that the journal knows of one job; `result` is null as long as there is none."""
    return {
        **job_row(record),
        "target": record.aud,
        "mode": record.facts.get("mode", ""),
        "repo": record.facts.get("repo", ""),
        "owner": record.owner,
        "expiresAt": rfc3339(record.exp) if record.exp else "",
        "deliveredAt": rfc3339(record.published_at),
        "history": [_step(row) for row in history],
        "processes": [_process(row) for row in processes if row.pid],
        "tree": None if tree is None else _tree(tree),
        "result": _result(record),
    }


def status_of(record: JobRecord) -> str:
    """Return the status of a job's result, "" as long as there is none."""
    found = _parsed(record)
    return "" if found is None else found.status.value


def _parsed(record: JobRecord) -> Outcome | None:
    return None if record.result is None else read_outcome(record.kind, record.result)


def _result(record: JobRecord) -> dict[str, Any] | None:
    found = _parsed(record)
    if found is None:
        return None
    return {
        "status": found.status.value,
        "summary": found.summary,
        "risks": [risk.code for risk in found.risks],
        "needsHumanReview": found.needs_human_review,
        "worktreePath": found.worktreePath,
    }


def _step(row: Transition) -> dict[str, Any]:
    return {
        "state": row.state.value,
        "attempt": row.attempt,
        "at": rfc3339(row.at),
        "pid": row.pid,
        "why": row.why,
    }


def _process(row: RecordedProcess) -> dict[str, Any]:
    return {
        "role": row.role,
        "pid": row.pid,
        "startedAt": rfc3339(row.started),
        "endedAt": rfc3339(row.ended_at),
    }


def _tree(tree: TreeRecord) -> dict[str, Any]:
    return {
        "path": tree.path,
        "branch": tree.branch,
        "kept": tree.kept,
        "removedAt": rfc3339(tree.removed_at),
        "removedWhy": tree.removed_why,
    }
