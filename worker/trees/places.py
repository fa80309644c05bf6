"""Where the tree of a record stands, whether it is the one that was made, and what it takes."""

from __future__ import annotations

import dataclasses
import os
import stat
from typing import Final

from runagent.git.head import read_line
from runagent.trees.tree_aside import TreePlace
from worker.journal.trees import TreeRecord

_FILES_MAX: Final = 1_000_000  # a tree of this many files is large, whatever its exact size is


def place_of(record: TreeRecord) -> TreePlace:
    """Return where the tree was made."""
    return TreePlace(
        job_id=record.job,
        path=record.path,
        repo=record.repo,
        common_dir=record.common_dir,
        admin_dir=record.admin_dir,
        branch=record.branch,
        identity=record.identity,
    )


def standing_place(record: TreeRecord) -> TreePlace:
    """Return where the tree stands now: aside when it was removed."""
    place = place_of(record)
    if not record.is_removed:
        return place
    return dataclasses.replace(place, path=place.aside, admin_dir=place.admin_aside)


def stands(place: TreePlace) -> bool:
    """Say whether the folder at the place is the one that was made, and no link."""
    try:
        found = os.lstat(place.path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and place.identity in ("", str(found.st_ino))


def is_locked_by_owner(place: TreePlace) -> bool:
    """Say whether somebody else than its own run locked the worktree."""
    lock = os.path.join(place.admin_dir, "locked")
    return os.path.lexists(lock) and read_line(lock) != f"fleet-dispatch job {place.job_id}"


def bytes_of(path: str) -> int:
    """Return what the files below `path` take on the disk; links are not followed."""
    total, seen, pending = 0, 0, [path]
    while pending and seen < _FILES_MAX:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    seen += 1
                    found = entry.stat(follow_symlinks=False)
                    # Windows has no blocks: there it is the length.
                    total += getattr(found, "st_blocks", 0) * 512 or found.st_size
                    if stat.S_ISDIR(found.st_mode):
                        pending.append(entry.path)
        except OSError:
            continue
    return total
