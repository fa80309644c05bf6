"""`.worktreeinclude`: ignored files of the main checkout, such as `.env`, copied into a worktree.

The list is the main checkout's own, as it stands there: the owner's hand wrote it. One from a
commit would let whoever names a branch choose which secrets an agent gets to see. Git's matcher
reads it. It must never copy over a tracked file, through a link, or what git then shows as new.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from contracts.run_agent import Risk
from runagent.deadline import Deadline
from runagent.git.shadow_git import ShadowGit
from runagent.git.trusted_git import TrustedGit
from runagent.trees.worktree_options import WorktreeOptions

INCLUDE_NAME: Final = ".worktreeinclude"
_LIST_MAX_BYTES: Final = 65_536  # some hundred patterns; git reads the whole of it into memory
_NAMED: Final = 10
_SPECIAL: Final = re.compile(r"([\\*?\[\]! #])")


@dataclass(slots=True)
class _Copied:
    paths: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def copy_included(
    shadow: ShadowGit, repo: str, options: WorktreeOptions, deadline: Deadline
) -> tuple[Risk, ...]:
    """Copy what the list of the main checkout `repo` names into the fresh worktree of `shadow`, and
    return a risk that names what was left out.

    A file is copied when the list names it and git ignores it in both trees. Raises OSError (a full
    disk), CouldNotCheck or Unavailable. No agent has been in the worktree yet.
    """
    listed = os.path.join(repo, INCLUDE_NAME)
    if not options.include or not _is_plain_list(listed):
        return ()
    wanted = _named_and_ignored(TrustedGit(repo), listed)
    tracked = _tracked(shadow, deadline)
    sizes = {path: size for path in wanted - tracked if (size := _plain_size(repo, path)) >= 0}
    links = sorted(wanted - tracked - sizes.keys())
    if len(sizes) > options.include_max_files or sum(sizes.values()) > options.include_max_bytes:
        message = (
            f"{INCLUDE_NAME} names {len(sizes)} files with {sum(sizes.values())} bytes, more than "
            "include_max_files or include_max_bytes allows; none was copied"
        )
        return (Risk(code="include_skipped", message=message),)
    copied = _Copied(skipped=links)
    for path in sorted(sizes):
        _copy(repo, shadow.work_tree, path, sizes[path], copied)
    _take_back_what_is_not_ignored(shadow, copied)
    _ignore_in_our_looks(shadow, copied.paths)
    if not copied.skipped:
        return ()
    message = (
        f"{INCLUDE_NAME} names what was not copied, because it is a link, lies behind one, cannot "
        f"be read, or is not ignored here: {_names(copied.skipped)}"
    )
    return (Risk(code="include_skipped", message=message),)


def _is_plain_list(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= _LIST_MAX_BYTES


def _named_and_ignored(git: TrustedGit, listed: str) -> set[str]:
    """Return untracked files that the list names and that git ignores. What ends in `/` is another
    repository."""
    ask = ("ls-files", "-z", "--others")
    named = git.tell(*ask, "--ignored", f"--exclude-from={listed}")
    shown = git.tell(*ask, "--exclude-standard")
    return {
        path
        for path in set(named.split("\0")) - set(shown.split("\0"))
        if path and not path.endswith("/") and "\n" not in path
    }


def _tracked(shadow: ShadowGit, deadline: Deadline) -> set[str]:
    listing, _ = shadow.run(("ls-files", "-z"), deadline)
    return {os.fsdecode(path) for path in listing.split(b"\0")}


def _plain_size(root: str, path: str) -> int:
    """Return the size of a plain file that lies behind no link, -1 for anything else."""
    if not _is_behind_folders(root, path):
        return -1
    try:
        found = os.lstat(os.path.join(root, path))
    except OSError:
        return -1
    return found.st_size if stat.S_ISREG(found.st_mode) else -1


def _is_behind_folders(root: str, path: str) -> bool:
    """Say whether every folder above `path` that is there is a real one."""
    parts = path.split("/")[:-1]
    for count in range(1, len(parts) + 1):
        folder = os.path.join(root, *parts[:count])
        if os.path.lexists(folder) and not stat.S_ISDIR(os.lstat(folder).st_mode):
            return False
    return True


def _copy(source: str, target: str, path: str, size: int, copied: _Copied) -> None:
    """Copy one file where nothing stands yet. What cannot be read is skipped; what cannot be
    written is the disk's fault and raised."""
    if not _is_behind_folders(target, path):
        copied.skipped.append(path)
        return
    no_follow = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(os.path.join(source, path), os.O_RDONLY | no_follow)
    except OSError:
        copied.skipped.append(path)
        return
    new = os.path.join(target, path)
    with os.fdopen(descriptor, "rb") as reader:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o777
        os.makedirs(os.path.dirname(new), exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | no_follow
        try:
            written = os.open(new, flags, mode)
        except FileExistsError:  # names that differ in case alone, on a disk that sees one name
            copied.skipped.append(path)
            return
        with os.fdopen(written, "wb") as writer:
            writer.write(reader.read(size))
        shutil.copymode(os.path.join(source, path), new, follow_symlinks=False)
    copied.paths.append(path)


def _take_back_what_is_not_ignored(shadow: ShadowGit, copied: _Copied) -> None:
    """Remove copies that an agent's `git add` would commit: the base may ignore less than what the
    owner has checked out."""
    listing = TrustedGit(shadow.work_tree).tell("ls-files", "-z", "--others", "--exclude-standard")
    for path in sorted(set(listing.split("\0")) & set(copied.paths)):
        os.unlink(os.path.join(shadow.work_tree, path))
        copied.paths.remove(path)
        copied.skipped.append(path)


def _ignore_in_our_looks(shadow: ShadowGit, paths: Iterable[str]) -> None:
    """Let our own looks ignore the copies, also where only the owner's global rules did."""
    lines = [f"/{_SPECIAL.sub(_escape, path)}\n" for path in paths]
    with open(os.path.join(shadow.directory, "info", "exclude"), "ab") as file:
        file.write(os.fsencode("".join(lines)))


def _escape(match: re.Match[str]) -> str:
    return f"\\{match.group(1)}"


def _names(paths: list[str]) -> str:
    shown = [os.fsencode(path).decode("utf-8", "backslashreplace") for path in paths[:_NAMED]]
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(shown) + more
