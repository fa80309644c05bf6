"""Files of repositories that stand inside the worktree, found by walking: git shows only `n/`.

An agent that ran `git init` in a folder would otherwise hide all of its work there. Nothing is
asked of the nested repository: its git directory is the agent's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from contracts.run_agent import Risk
from runagent.deadline import Deadline
from runagent.git.shadow_git import ShadowGit
from runagent.process import EndState

FILES_MAX: Final = 200_000
_NAMED: Final = 10


def list_nested_files(
    shadow: ShadowGit, folders: Iterable[bytes], deadline: Deadline
) -> tuple[list[bytes], frozenset[bytes], list[Risk]]:
    """Return the files below the nested repositories `folders` (relative to the work tree) that
    are not ignored, links included; those that are; and the risks to record.

    Raises CouldNotCheck when git cannot say what is ignored.
    """
    problems: list[Risk] = []
    found: list[bytes] = []
    named = [folder.rstrip(b"/") for folder in folders]
    root = os.fsencode(shadow.work_tree)
    for folder in named:
        try:
            _walk(root, folder, found)
        except OSError as error:
            problems.append(
                Risk(
                    code="evidence_incomplete",
                    message=f"the nested repository {_show(folder)} cannot be read: "
                    f"{error.strerror}",
                )
            )
    if len(found) > FILES_MAX:
        found = found[:FILES_MAX]
        problems.append(
            Risk(
                code="evidence_incomplete",
                message=f"nested repositories hold more than {FILES_MAX} files",
            )
        )
    shown = ", ".join(_show(folder) for folder in named[:_NAMED])
    problems.append(
        Risk(
            code="nested_repository",
            message=f"{len(named)} repositories stand inside the worktree ({shown}): their commits "
            "are in no branch of this repository",
        )
    )
    ignored = _ignored_of(shadow, found, deadline)
    return [path for path in found if path not in ignored], ignored, problems


def _walk(root: bytes, top: bytes, found: list[bytes]) -> None:
    """Append every file below `top`, git directories left out; stop past FILES_MAX."""
    pending = [top]
    while pending and len(found) <= FILES_MAX:
        folder = pending.pop()
        with os.scandir(os.path.join(root, folder)) as entries:
            for entry in entries:
                if entry.name == b".git":
                    continue
                path = folder + b"/" + entry.name
                if entry.is_dir(follow_symlinks=False):
                    pending.append(path)
                elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                    found.append(path)


def _ignored_of(shadow: ShadowGit, paths: list[bytes], deadline: Deadline) -> frozenset[bytes]:
    if not paths:
        return frozenset()
    outcome = shadow.attempt(
        ("check-ignore", "--no-index", "-z", "--stdin"),
        deadline,
        stdin=b"\0".join(paths) + b"\0",
    )
    if outcome.state is EndState.EXITED and outcome.exit_code == 1:  # none of them is ignored
        return frozenset()
    shadow.check(outcome, "check-ignore")
    return frozenset(path for path in outcome.stdout.split(b"\0") if path)


def _show(folder: bytes) -> str:
    return folder.decode("utf-8", "backslashreplace")
