"""What an agent's tree must be reported as, worked out in the plainest way: every file is read at
the start and at the end, and what was committed is read from the objects."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tests.support.repositories import attempt_git

State = dict[bytes, bytes]


def read_everything(tree: Path) -> State:
    """Return path -> what counts of it, for every file and link outside folders named `.git`."""
    root = os.fsencode(tree)
    return {path: _what_counts(os.path.join(root, path)) for path in _walk(root, b"")}


def differing(one: State, other: State) -> set[bytes]:
    """Return the paths that are not the same in both."""
    return {path for path, _ in one.items() ^ other.items()}


def committed(repo: Path, tree: Path, base: str, branch: str) -> set[bytes]:
    """Return the paths in which HEAD and the job's branch differ from the base commit."""
    start = _tree_of(repo, base)
    tips = [attempt_git(tree, "rev-parse", "--verify", "-q", "HEAD^{commit}")]
    tips.append(attempt_git(repo, "rev-parse", "--verify", "-q", f"refs/heads/{branch}^{{commit}}"))
    found: set[bytes] = set()
    for tip in tips:
        if tip.returncode == 0:
            found |= differing(start, _tree_of(repo, tip.stdout.decode().strip()))
    return found


def folders_named_git(tree: Path) -> set[bytes]:
    """Return every `.git` below the root, whatever it is."""
    root = os.fsencode(tree)
    found = set()
    for place, folders, files in os.walk(root):
        if place != root and b".git" in (*folders, *files):
            found.add(os.path.relpath(os.path.join(place, b".git"), root))
        if b".git" in folders:
            folders.remove(b".git")
    return found


def _walk(root: bytes, folder: bytes) -> Iterator[bytes]:
    for entry in os.scandir(os.path.join(root, folder)):
        path = os.path.join(folder, entry.name)
        if entry.name == b".git":
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(root, path)
        elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
            yield path


def _what_counts(path: bytes) -> bytes:
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        return b"link " + os.readlink(path)
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest().encode()
    return (b"program " if found.st_mode & stat.S_IXUSR else b"file ") + digest


def _tree_of(repo: Path, commit: str) -> State:
    listing = attempt_git(repo, "--no-replace-objects", "ls-tree", "-r", "-z", commit).stdout
    records = (record.partition(b"\t") for record in listing.split(b"\0") if record)
    return {path: head for head, _, path in records}
