"""Bringing our index up to what stands in the tree, with plumbing that starts no other program.

`git add` is not used: it starts git inside nested repositories, stops at an unreadable file, and
takes a nested repository for one entry. Here git lists what differs, and each path is looked at
before git opens it. What is too large to copy, or cannot be read, is not staged but remembered by
its stat data, so that its change is still seen.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from contracts.run_agent import Risk
from runagent.deadline import Deadline
from runagent.evidence.nested import list_nested_files
from runagent.git.shadow_git import ShadowGit
from runagent.side_by_side import side_by_side

# A job's copies stay small beside the checkout itself; a 5 GB file is seen without being read.
COPY_MAX_BYTES: Final = 64 * 1024 * 1024
COPIES_MAX_BYTES: Final = 1024 * 1024 * 1024
_UNREADABLE_FOLDER: Final = "could not open directory"


@dataclass(slots=True)
class Staged:
    """What one staging found besides what it put into the index."""

    loose: dict[bytes, str] = field(default_factory=dict)  # path -> stat data, not in the index
    problems: list[Risk] = field(default_factory=list)
    nested: list[bytes] = field(default_factory=list)  # folders of repositories inside, with `/`
    ignored: frozenset[bytes] = frozenset()  # files in them that are ignored by our rules


@dataclass(slots=True)
class _Plan:
    add: list[bytes] = field(default_factory=list)
    remove: list[bytes] = field(default_factory=list)
    loose: dict[bytes, str] = field(default_factory=dict)
    copied_bytes: int = 0


def stage_everything(shadow: ShadowGit, deadline: Deadline, also: Iterable[bytes]) -> Staged:
    """Stage every change and every file that is not ignored, and the paths `also` if they exist.

    Raises CouldNotCheck or Unavailable when git fails; the index then holds what it held before,
    or a part of what is new.
    """
    staged = Staged()
    changed, (listing, warnings) = side_by_side(
        lambda: _changed_paths(shadow, deadline),
        lambda: shadow.run(("ls-files", "-z", "--others", "--exclude-standard"), deadline),
    )
    paths = set(changed)
    nested = staged.nested
    for path in listing.split(b"\0"):
        if path.endswith(b"/"):
            nested.append(path)
        elif path:
            paths.add(path)
    if nested:
        found, staged.ignored, problems = list_nested_files(shadow, nested, deadline)
        paths.update(found)
        staged.problems.extend(problems)
    if _UNREADABLE_FOLDER in warnings:
        staged.problems.append(
            Risk(code="evidence_incomplete", message="a folder of the worktree cannot be read")
        )
    root = os.fsencode(shadow.work_tree)
    # A submodule that was committed is a folder here, and none of our files.
    paths.update(path for path in also if not os.path.isdir(os.path.join(root, path)))
    plan = _plan(root, sorted(paths))
    staged.loose.update(plan.loose)
    _write_index(shadow, plan, deadline)
    return staged


def _changed_paths(shadow: ShadowGit, deadline: Deadline) -> Iterable[bytes]:
    """Return tracked paths whose stat data differ, changed or not: staging them settles it."""
    listing, _ = shadow.run(
        ("diff-files", "--raw", "-z", "--no-renames", "--ignore-submodules=all"), deadline
    )
    return listing.split(b"\0")[1::2]  # ":modes ids letter", path, ":modes …


def _write_index(shadow: ShadowGit, plan: _Plan, deadline: Deadline) -> None:
    if plan.remove:
        shadow.run(
            ("update-index", "--force-remove", "-z", "--stdin"),
            deadline,
            stdin=b"\0".join(plan.remove) + b"\0",
        )
    if plan.add:
        shadow.run(
            ("update-index", "--add", "--remove", "--replace", "-z", "--stdin"),
            deadline,
            stdin=b"\0".join(plan.add) + b"\0",
        )


def _plan(root: bytes, paths: Iterable[bytes]) -> _Plan:
    plan = _Plan()
    real_folders: dict[bytes, bool] = {b"": True}
    for path in paths:
        found = _look(root, path, real_folders)
        if found is None or not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
            # Gone, or a folder (its files are listed by themselves), or nothing git can hold.
            plan.remove.append(path)
        elif stat.S_ISLNK(found.st_mode) or _may_be_copied(root, path, found, plan):
            plan.add.append(path)
        else:
            plan.loose[path] = fingerprint(found)
    return plan


def _may_be_copied(root: bytes, path: bytes, found: os.stat_result, plan: _Plan) -> bool:
    """Say whether git may read the file into our objects; count it if so."""
    if found.st_size > COPY_MAX_BYTES or plan.copied_bytes + found.st_size > COPIES_MAX_BYTES:
        return False
    if not os.access(os.path.join(root, path), os.R_OK):
        return False
    plan.copied_bytes += found.st_size
    return True


def fingerprint(found: os.stat_result) -> str:
    """Return what tells two states of one unread file apart."""
    return (
        f"{found.st_mode:o} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}"
    )


def _look(root: bytes, path: bytes, real_folders: dict[bytes, bool]) -> os.stat_result | None:
    """Return the stat data of `path` itself, None when it is gone or lies behind a link."""
    if not _is_real_folder(root, os.path.dirname(path), real_folders):
        return None
    try:
        return os.lstat(os.path.join(root, path))
    except OSError:
        return None


def _is_real_folder(root: bytes, folder: bytes, known: dict[bytes, bool]) -> bool:
    if folder not in known:
        if not _is_real_folder(root, os.path.dirname(folder), known):
            known[folder] = False
        else:
            try:
                known[folder] = stat.S_ISDIR(os.lstat(os.path.join(root, folder)).st_mode)
            except OSError:
                known[folder] = False
    return known[folder]
