"""The worktrees of this host in the journal: the register from which they are shown and removed.

One row per job, written before the worktree is made. Every step of a removal is a committed row
change, so that a crash leaves a state from which the next collection goes on. Removes nothing
itself and asks git nothing.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Final

from contracts.clock import Clock
from runagent.trees.tree_registry import PlannedTree
from worker.journal.leases import Leases
from worker.journal.store import JournalFile

LEASE_KIND: Final = "tree"
# Counts only for a state folder that two machines share: longer than the longest run, which has
# two attempts of 14 400 s, their validation and the looks.
LEASE_S: Final = 12 * 3_600.0

_STANDS: Final = "UPDATE trees SET admin_dir = ?, identity = ? WHERE job = ?"
_KEEP: Final = "UPDATE trees SET kept = ? WHERE job = ?"
_BEGIN_REMOVAL: Final = """
    UPDATE trees SET aside = ?, head_commit = ?, removed_why = ?, removed_at = NULL WHERE job = ?
"""
_END_REMOVAL: Final = "UPDATE trees SET removed_at = ? WHERE job = ?"
_BEGIN_RESTORATION: Final = "UPDATE trees SET removed_at = NULL WHERE job = ?"
_END_RESTORATION: Final = """
    UPDATE trees SET aside = '', head_commit = '', removed_why = '', removed_at = NULL
    WHERE job = ?
"""
_BEGIN_DELETION: Final = "UPDATE trees SET gone_at = ? WHERE job = ?"
_END_DELETION: Final = "UPDATE trees SET gone_at = ?, aside = '' WHERE job = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRecord:
    """A worktree as the register knows it. Times are Unix seconds.

    `aside` without `removed_at` is a removal or a restoration that was begun; `gone_at` with
    `aside` a deletion that was begun.
    """

    job: str
    path: str
    repo: str
    common_dir: str
    branch: str
    base_commit: str
    ticket: str
    made_at: float
    admin_dir: str  # "" until it stands
    identity: str
    kept: str  # why a person keeps it, "" when nobody does
    head_commit: str  # of the branch, when the tree was removed
    aside: str  # where the tree stands after its removal
    removed_why: str
    removed_at: float | None
    gone_at: float | None

    @property
    def is_removed(self) -> bool:
        """Say whether the tree was removed whole and can be restored."""
        return self.removed_at is not None and self.gone_at is None

    @property
    def is_half_done(self) -> bool:
        """Say whether a removal, a restoration or a deletion was begun and not ended."""
        return bool(self.aside) and (self.removed_at is None or self.gone_at is not None)


class JournalTrees:
    """The register of one journal. It is a `TreeRegistry`, and more."""

    def __init__(self, file: JournalFile, clock: Clock, leases: Leases) -> None:
        self._file = file
        self._clock = clock
        self._leases = leases

    def plan(self, tree: PlannedTree) -> None:
        """See TreeRegistry.plan."""
        self._leases.acquire(LEASE_KIND, tree.job_id, seconds=LEASE_S)
        columns = (tree.job_id, tree.path, tree.repo, tree.common_dir, tree.branch)
        with self._file.writing() as database:
            database.execute(
                "INSERT OR REPLACE INTO trees (job, path, repo, common_dir, branch, base_commit,"
                " ticket, made_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*columns, tree.base_commit, tree.ticket, self._clock.wall()),
            )

    def stands(self, job_id: str, *, admin_dir: str, identity: str) -> None:
        """See TreeRegistry.stands."""
        self._write(_STANDS, admin_dir, identity, job_id)

    def leave(self, job_id: str) -> None:
        """See TreeRegistry.leave."""
        self._leases.release(LEASE_KIND, job_id)

    def forget(self, job_id: str) -> None:
        """See TreeRegistry.forget."""
        with self._file.writing() as database:
            database.execute("DELETE FROM trees WHERE job = ?", (job_id,))
        self._leases.release(LEASE_KIND, job_id)

    def hold(self, job_id: str) -> str | None:
        """Take the tree for this process; return None, or the owner who has it and lives."""
        return self._leases.acquire(LEASE_KIND, job_id, seconds=LEASE_S)

    def holder(self, job_id: str) -> str | None:
        """Return the living owner who has the tree and is not this process, else None."""
        return self._leases.holder(LEASE_KIND, job_id)

    def find(self, job_id: str) -> TreeRecord | None:
        """Return the record of a job's tree, or None."""
        with self._file.reading() as database:
            row = database.execute("SELECT * FROM trees WHERE job = ?", (job_id,)).fetchone()
        return None if row is None else _record(row)

    def standing(self) -> list[TreeRecord]:
        """Return every tree that is not gone for good, oldest first; removed ones included."""
        with self._file.reading() as database:
            rows = database.execute(
                "SELECT * FROM trees WHERE gone_at IS NULL OR aside != '' ORDER BY made_at, job"
            ).fetchall()
        return [_record(row) for row in rows]

    def keep(self, job_id: str, why: str) -> None:
        """Write down why a person keeps the tree; "" when nobody does any more."""
        self._write(_KEEP, why, job_id)

    def begin_removal(self, job_id: str, *, aside: str, head_commit: str, why: str) -> None:
        """Write down where the tree is about to go and where its branch stands."""
        self._write(_BEGIN_REMOVAL, aside, head_commit, why, job_id)

    def end_removal(self, job_id: str) -> None:
        """Write down that the tree is removed and may be restored."""
        self._write(_END_REMOVAL, self._clock.wall(), job_id)

    def begin_restoration(self, job_id: str) -> None:
        """Write down that the tree is about to come back."""
        self._write(_BEGIN_RESTORATION, job_id)

    def end_restoration(self, job_id: str) -> None:
        """Write down that the tree stands where it was made."""
        self._write(_END_RESTORATION, job_id)

    def begin_deletion(self, job_id: str) -> None:
        """Write down that what was removed is being deleted: from here on it cannot be restored."""
        self._write(_BEGIN_DELETION, self._clock.wall(), job_id)

    def end_deletion(self, job_id: str) -> None:
        """Write down that nothing of the tree is left. The row stays, as an answer to questions."""
        self._write(_END_DELETION, self._clock.wall(), job_id)

    def forget_gone(self, before: float) -> int:
        """Strike out trees that were gone before the Unix time `before`; return how many."""
        with self._file.writing() as database:
            return database.execute(
                "DELETE FROM trees WHERE gone_at < ? AND aside = ''", (before,)
            ).rowcount

    def _write(self, statement: str, *values: str | float) -> None:
        with self._file.writing() as database:
            database.execute(statement, values)


def _record(row: sqlite3.Row) -> TreeRecord:
    return TreeRecord(**dict(row))
