"""What the host puts into a fresh worktree beyond git's own checkout, and what is still missing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from contracts.run_agent import Risk
from runagent.deadline import Deadline
from runagent.git.shadow_git import ShadowGit
from runagent.process import ProcessRunner
from runagent.trees.include_list import copy_included
from runagent.trees.submodules import fill_submodules
from runagent.trees.worktree_files import cannot_be_filled, list_special, note_what_is_missing
from runagent.trees.worktree_options import WorktreeOptions


@dataclass(frozen=True, slots=True)
class Extras:
    """The host's choices, and what they need of the machine."""

    options: WorktreeOptions
    environment: Mapping[str, str]  # searched for proxies alone
    runner: ProcessRunner

    def put_in(self, shadow: ShadowGit, repo: str, deadline: Deadline) -> tuple[Risk, ...]:
        """Fill submodules, copy what the include list of the main checkout `repo` names, and return
        the risks. No agent has been in the worktree of `shadow` yet.

        Raises RepositoryRefused (`no_space`, `parent_unwritable`), CouldNotCheck or Unavailable.
        """
        special = list_special(shadow, deadline)
        why_empty = fill_submodules(
            shadow.work_tree,
            [os.fsdecode(path) for path in special.submodules],
            self.options,
            environment=self.environment,
            runner=self.runner,
            deadline=deadline,
        )
        try:
            left_out = copy_included(shadow, repo, self.options, deadline)
        except OSError as error:
            raise cannot_be_filled(error) from error
        missing = note_what_is_missing(shadow, special, deadline, why_empty=why_empty)
        return (*missing, *left_out)
