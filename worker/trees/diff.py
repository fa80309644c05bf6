"""What a worktree changed against its base commit, as a patch that git can apply."""

from __future__ import annotations

from typing import Final

from contracts.errors import CouldNotCheck
from runagent.deadline import Deadline
from runagent.evidence.snapshot import take_snapshot
from runagent.evidence.tree_look import LOOK_TIMEOUT_S, opened_look
from runagent.git.object_check import verify_start
from runagent.process import ProcessRunner
from runagent.trees.tree_aside import heads_of
from worker.journal.trees import TreeRecord
from worker.trees.places import standing_place, stands
from worker.trees.survey import TreeSurvey

_REMEDY: Final = "fleet-dispatch worktrees show says what is known of it"


def read_diff(survey: TreeSurvey, record: TreeRecord, runner: ProcessRunner) -> bytes:
    """Return the patch from the base commit to the files as they stand, bytes as git prints them.

    Raises CouldNotCheck when the tree cannot be looked at, when an object of the start is not what
    its name says, or when the patch exceeds 64 MiB.
    """
    place = standing_place(record)
    if not stands(place):
        raise CouldNotCheck(f"there is no worktree at {place.path}", remedy=_REMEDY)
    commit = heads_of(place).commit or record.head_commit or record.base_commit
    deadline = Deadline(LOOK_TIMEOUT_S)
    try:
        with opened_look(
            place,
            folder=survey.look_folder(record.job),
            exclude=survey.exclude_file(record.job),
            runner=runner,
            commit=commit,
        ) as shadow:
            snapshot = take_snapshot(shadow, deadline, also=(), before=None)
            if snapshot.is_incomplete or not snapshot.tree:
                told = snapshot.problems[0].message if snapshot.problems else "git listed nothing"
                raise CouldNotCheck(f"the tree cannot be looked at whole: {told}", remedy=_REMEDY)
            verify_start(shadow, record.base_commit, snapshot.tree, deadline)
            patch, _ = shadow.run(
                (
                    *("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--binary"),
                    *("--full-index", "-M", record.base_commit, snapshot.tree),
                ),
                deadline,
            )
            return patch
    except OSError as error:
        told = f"the tree cannot be read: {error.strerror} ({error.filename})"
        raise CouldNotCheck(told, remedy=_REMEDY) from error
