"""Removing a worktree so that it can be restored, restoring it, and deleting it for good.

Every step is in the journal before it is taken. After a crash the place of the folder decides: one
that is aside is removed to the end, one that stands where it was made is brought back to the end.
It must never ask git to remove anything, and never act on a tree that another process holds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

from contracts.errors import CouldNotCheck, FleetError, Refused
from runagent.git.repo_lock import hold_repo_lock
from runagent.trees.tree_aside import (
    TreePlace,
    branch_tip,
    bring_branch_back,
    bring_folder_back,
    delete_for_good,
    drop_branch,
    heads_of,
    hide_admin_dir,
    pin_commits,
    put_folder_aside,
    show_to_git,
    unpin_commits,
)
from runagent.trees.tree_removal import remove_child, remove_if_empty
from runagent.trees.worktree_metadata import find_admin_dir
from worker.journal.owners import pid_of
from worker.journal.trees import JournalTrees, TreeRecord
from worker.trees.places import place_of, stands

# Metadata takes milliseconds; a stopped holder of the lock is waited for no longer than a checkout.
_LOCK_S: Final = 30.0


def take_no_notice(_step: str) -> None:
    """Do nothing between two steps."""


class TreeRemover:
    """Removes, restores and deletes trees of one register. Each method may raise CouldNotCheck,
    Unavailable (a lock of git's own, the journal) or Refused; what was begun is then ended by the
    next `settle`."""

    def __init__(
        self,
        trees: JournalTrees,
        *,
        runs_dir: Path,
        step: Callable[[str], None] = take_no_notice,
    ) -> None:
        """`runs_dir` holds a private folder for each job; `step` is told each step when it is done,
        so that a test can end the process there."""
        self._trees = trees
        self._runs_dir = runs_dir
        self._step = step

    @contextmanager
    def holding(self, record: TreeRecord) -> Iterator[None]:
        """Hold the tree for this process. Raises Refused (`in_use`) when another one has it."""
        holder = self._trees.hold(record.job)
        if holder is not None:
            raise Refused(
                f"the worktree of {record.job} is held by process {pid_of(holder)}",
                code="in_use",
                remedy="wait for its end",
            )
        try:
            yield
        finally:
            self._trees.leave(record.job)

    def remove(self, record: TreeRecord, why: str) -> None:
        """Put the tree of `record` aside with its branch and git directory. Hold it first."""
        place = place_of(record)
        if not stands(place):
            raise Refused(
                f"{record.path} is not the folder that was made there",
                code="replaced",
                remedy="look at it and remove it by hand",
            )
        with _locked(place):
            tip = branch_tip(place)
            self._trees.begin_removal(record.job, aside=place.aside, head_commit=tip, why=why)
            self._step("begun")
            try:
                self._put_aside(place, tip)
            except (OSError, FleetError) as error:
                self._go_on(place, tip)
                raise _failure("removed", record, error) from error

    def restore(self, record: TreeRecord) -> None:
        """Bring a removed tree back. Hold it first. Raises Refused when it cannot come back."""
        place = place_of(record)
        if not record.is_removed:
            raise Refused(
                f"the worktree of {record.job} was not removed", code="not_removed", remedy=""
            )
        if os.path.lexists(record.path) or not os.path.isdir(place.aside):
            raise Refused(
                f"something else stands at {record.path}, or nothing at {place.aside}",
                code="cannot_restore",
                remedy="move what stands there away",
            )
        with _locked(place):
            self._trees.begin_restoration(record.job)
            self._step("begun")
            try:
                self._bring_back(place, record.head_commit)
            except (OSError, FleetError) as error:
                self._go_on(place, record.head_commit)
                raise _failure("restored", record, error) from error

    def settle(self, record: TreeRecord) -> None:
        """End what a crash left half done. Hold the tree first."""
        place = place_of(record)
        try:
            if record.gone_at is not None:
                self.delete(record)
                return
            with _locked(place):
                if os.path.isdir(place.aside):
                    self._put_aside(place, record.head_commit)
                elif os.path.lexists(place.path):  # even if it is another folder by now
                    self._bring_back(place, record.head_commit)
                else:
                    self.delete(record)
        except OSError as error:
            raise _failure("settled", record, error) from error

    def delete(self, record: TreeRecord) -> None:
        """Delete what was put aside, for good, and what the host kept for the job's run."""
        place = place_of(record)
        self._trees.begin_deletion(record.job)
        self._step("deletion_begun")
        try:
            delete_for_good(place)
            self._step("deleted")
            if self._runs_dir.is_dir():
                remove_child(str(self._runs_dir), record.job)
        except OSError as error:
            raise _failure("deleted", record, error) from error
        self._trees.end_deletion(record.job)

    def adopt_or_forget(self, record: TreeRecord) -> None:
        """Take in the tree of a run that was killed while it was being made: as it stands, or not
        at all when nothing stands. Hold it first."""
        place = place_of(record)
        if not place.has_repository:
            self._trees.forget(record.job)
            return
        with _locked(place):
            admin_dir = find_admin_dir(record.common_dir, record.path)
            if stands(place):
                identity = str(os.lstat(record.path).st_ino)
                self._trees.stands(record.job, admin_dir=admin_dir, identity=identity)
                return
            if admin_dir:
                remove_child(os.path.dirname(admin_dir), os.path.basename(admin_dir))
                remove_if_empty(os.path.dirname(admin_dir))
            drop_branch(place, record.base_commit)
            remove_if_empty(os.path.dirname(record.path))
            self._trees.forget(record.job)

    def _put_aside(self, place: TreePlace, tip: str) -> None:
        if place.has_repository:
            commits = [commit for commit in (tip, *heads_of(place).commits) if commit]
            pin_commits(place, dict.fromkeys(commits))
        self._step("pinned")
        if place.has_repository:
            # Before the folder: an owner's `git worktree prune` deletes it when the folder is gone.
            hide_admin_dir(place)
        self._step("hidden")
        if not os.path.isdir(place.aside):
            put_folder_aside(place)
        self._step("moved")
        if place.has_repository:
            drop_branch(place, tip)
        self._step("branch_gone")
        self._trees.end_removal(place.job_id)

    def _bring_back(self, place: TreePlace, head_commit: str) -> None:
        if place.has_repository:
            bring_branch_back(place, head_commit)
        self._step("branch_back")
        if not os.path.lexists(place.path):
            bring_folder_back(place)
        self._step("moved_back")
        if place.has_repository:
            show_to_git(place)
            self._step("shown")
            unpin_commits(place)
        self._step("unpinned")
        self._trees.end_restoration(place.job_id)

    def _go_on(self, place: TreePlace, head_commit: str) -> None:
        """After a failed step: undo it if the folder was not moved; else the next settling does."""
        try:
            if os.path.lexists(place.path) and not os.path.lexists(place.aside):
                self._bring_back(place, head_commit)
        except (OSError, FleetError):
            return


@contextmanager
def _locked(place: TreePlace) -> Iterator[None]:
    with hold_repo_lock(place.common_dir, _LOCK_S) if place.has_repository else nullcontext():
        yield


def _failure(what: str, record: TreeRecord, error: OSError | FleetError) -> FleetError:
    if isinstance(error, FleetError):
        return error
    return CouldNotCheck(
        f"the worktree {record.path} could not be {what}: {error.strerror} ({error.filename})",
        remedy="mend that, then fleet-dispatch worktrees gc",
    )
