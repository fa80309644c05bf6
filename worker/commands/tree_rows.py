"""Worktrees and collections as the documents that `worktrees … --json` prints."""

from __future__ import annotations

from typing import Any, Final

from contracts.clock import SystemClock
from dispatch.config_worktrees import WorktreesSection
from dispatch.times import rfc3339
from runagent.shown_path import display_path
from worker.trees.collector import Collection, why_it_stays
from worker.trees.desk import what_it_holds
from worker.trees.survey import TreeView

_DAY_S: Final = 86_400
_FILES_MAX: Final = 2_000  # as in a result; the whole list is a `diff` away


def tree_row(
    view: TreeView, policy: WorktreesSection, *, with_files: bool = False
) -> dict[str, Any]:
    """Return one tree as a JSON object; `with_files` adds the paths that differ."""
    record, look = view.record, view.look
    removed_at = record.removed_at
    until = None if removed_at is None else removed_at + policy.grace_days * _DAY_S
    row: dict[str, Any] = {
        "jobId": record.job,
        "ticket": record.ticket,
        "state": view.state.value,
        "states": [state.value for state in view.states],
        "path": record.path,
        "repo": record.repo,
        "branch": record.branch,
        "baseCommit": record.base_commit,
        "headCommit": record.head_commit or (look.head.commit if look else ""),
        "status": view.status,
        "bytes": view.bytes,
        "madeAt": rfc3339(record.made_at),
        "ageSeconds": max(0, round(SystemClock().wall() - record.made_at)),
        "uncommitted": len(look.uncommitted) if look else 0,
        "unpushed": look.unpushed if look else 0,
        "landedIn": look.landed_in if look else "",
        "holds": what_it_holds(view) if look else "",
        "safeToRemove": view.is_free and view.is_safe,
        "why": record.removed_why if removed_at is not None else why_it_stays(view),
        "kept": record.kept,
        "inUse": view.in_use,
        "removedAt": rfc3339(removed_at),
        "restorableUntil": rfc3339(until),
    }
    if with_files:  # the same keys for a tree that was not looked at
        changed = () if look is None else look.changed
        row["changedTotal"] = len(changed)
        row["changedFiles"] = [display_path(path)[0] for path in changed[:_FILES_MAX]]
        row["problems"] = [] if look is None else list(look.problems)
    return row


def collection_document(done: Collection) -> dict[str, Any]:
    """Return what a collection did as one JSON object."""
    groups = {
        "settled": done.settled,
        "removed": done.removed,
        "deleted": done.deleted,
        "stayed": done.stayed,
        "problems": done.problems,
    }
    listed = {
        name: [{"jobId": job, "why": why} for job, why in pairs] for name, pairs in groups.items()
    }
    return {"dryRun": done.dry_run, **listed}


def size_words(count: int) -> str:
    """Return a number of bytes for people."""
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
