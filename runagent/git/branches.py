"""The owner's branches, read from git's files: did one move to a commit that the agent made?

A worktree shares its branches with the main checkout, so an agent can move the branch that is
checked out there. Owners commit and fetch during a job: a branch that went anywhere else is theirs.
It must never run git on the repository.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

from contracts.run_agent import Risk
from runagent.git.head import loose_refs, read_line, read_lines

_HEADS: Final = "refs/heads/"
_JOBS: Final = "refs/heads/wt/"
_BRANCHES_MAX: Final = 50_000
_NAMED: Final = 10


def read_branches(common_dir: str) -> dict[str, str]:
    """Return the tip of every branch that is not a job's; a loose ref outdoes a packed one."""
    tips: dict[str, str] = {}
    for line in read_lines(os.path.join(common_dir, "packed-refs")):
        commit, _, ref = line.decode("utf-8", "backslashreplace").strip().partition(" ")
        if ref.startswith(_HEADS):
            tips[ref] = commit
    for ref in loose_refs(common_dir):
        if len(tips) > _BRANCHES_MAX:
            break
        if ref.startswith(_HEADS):
            tips[ref] = read_line(os.path.join(common_dir, *ref.split("/")))
    return {ref: tip for ref, tip in tips.items() if not ref.startswith(_JOBS)}


def tell_moved(
    before: Mapping[str, str], after: Mapping[str, str], own_commits: frozenset[str]
) -> Iterable[Risk]:
    """Return a risk for the branches that now stand at one of `own_commits`, the job's own."""
    moved = [
        ref.removeprefix(_HEADS)
        for ref, tip in sorted(after.items())
        if tip in own_commits and before.get(ref, tip) != tip  # a new one takes nobody's place
    ]
    if not moved:
        return ()
    named = ", ".join(os.fsencode(ref).decode("utf-8", "replace") for ref in moved[:_NAMED])
    more = f" and {len(moved) - _NAMED} more" if len(moved) > _NAMED else ""
    message = (
        f"branches that are not the job's stand at commits of the agent now: {named}{more}; the "
        "reflog of each has where it stood"
    )
    return (Risk(code="branch_moved", message=message),)
