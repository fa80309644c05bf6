"""Where the worktree's HEAD stands, read from git's files: git itself is never run on them.

An agent can write anything into these files. What cannot be understood is said, not guessed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from contracts.run_agent import Risk

_OBJECT_ID: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REF: Final = re.compile(r"refs(?:/(?!\.)[^/\x00-\x20\x7f\\~^:?*\[]+)+")
_POINTER_MAX_BYTES: Final = 8_192
_FILE_MAX_BYTES: Final = 64 * 1024 * 1024  # a packed-refs of 900,000 refs; a sparse one has no end
# A link is not followed, and a pipe does not hold us up.
OPEN_PLAINLY: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
_LINKS_MAX: Final = 5  # git follows as many symbolic refs


@dataclass(frozen=True, slots=True)
class Head:
    """The commits to look at, newest knowledge of HEAD and of the job's branch."""

    commit: str  # of HEAD; else of the job's branch; "" when neither can be read
    commits: tuple[str, ...]  # HEAD's and the branch's, without repetition
    risks: tuple[Risk, ...]


def read_head(admin_dir: str, common_dir: str, branch: str) -> Head:
    """Return where HEAD of the worktree stands. `admin_dir` is the worktree's git directory,
    `branch` the job's branch without refs/heads/."""
    wanted = f"refs/heads/{branch}"
    text = read_line(os.path.join(admin_dir, "HEAD"))
    ref, commit = _follow(text, common_dir)
    tip = resolve_ref(wanted, common_dir)
    risks = []
    if not ref and not commit:
        risks.append(_risk("head_unreadable", "the worktree's HEAD is missing or garbage"))
    elif not ref:
        risks.append(_risk("head_detached", f"the agent left HEAD detached at {commit}"))
    elif ref != wanted:
        risks.append(_risk("head_moved", f"the agent left HEAD on {ref}, not on {wanted}"))
    if ref and not commit:
        risks.append(_risk("head_unborn", f"{ref} holds no commit"))
    if ref != wanted and not tip:
        risks.append(_risk("branch_lost", f"{wanted} holds no commit any more"))
    commits = tuple(dict.fromkeys(found for found in (commit, tip) if found))
    return Head(commit or tip, commits, tuple(risks))


def _risk(code: str, message: str) -> Risk:
    return Risk(code=code, message=message)


def _follow(text: str, common_dir: str) -> tuple[str, str]:
    """Return (last ref name, object id) behind the content of a HEAD or ref file."""
    ref = ""
    for _ in range(_LINKS_MAX):
        if _OBJECT_ID.fullmatch(text):
            return ref, text
        target = text.removeprefix("ref:").strip() if text.startswith("ref:") else ""
        if not _is_ref_name(target):
            return ref, ""
        ref = target
        text = read_line(os.path.join(common_dir, *ref.split("/"))) or _packed(ref, common_dir)
    return ref, ""


def resolve_ref(ref: str, common_dir: str) -> str:
    """Return the object id of the full ref name `ref`, "" when it holds none."""
    return _follow(f"ref: {ref}", common_dir)[1]


def _is_ref_name(name: str) -> bool:
    return _REF.fullmatch(name) is not None and ".." not in name and "@{" not in name


def _packed(ref: str, common_dir: str) -> str:
    wanted = f" {ref}\n".encode()
    for line in read_lines(os.path.join(common_dir, "packed-refs")):
        if line.endswith(wanted):
            return line[: -len(wanted)].decode("ascii", "replace")
    return ""


def read_lines(path: str) -> Iterator[bytes]:
    """Yield the lines of a regular file, of its first 64 MiB; none when there is no such file."""
    descriptor = _open_regular(path)
    if descriptor is None:
        return
    left = _FILE_MAX_BYTES
    with os.fdopen(descriptor, "rb") as file:
        while left > 0 and (line := file.readline(_POINTER_MAX_BYTES)):
            left -= len(line)
            yield line


def loose_refs(common_dir: str) -> Iterator[str]:
    """Yield the full names of the loose refs below `common_dir`. A folder that is a link may lead
    anywhere, to all files of this machine: none is followed."""
    if os.path.islink(os.path.join(common_dir, "refs")):
        return
    pending = ["refs"]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(os.path.join(common_dir, folder)) as entries:
                found = list(entries)
        except OSError:
            continue
        for entry in found:
            name = f"{folder}/{entry.name}"
            if not _is_folder(entry):
                yield name
            elif not entry.is_symlink():
                pending.append(name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def read_line(path: str) -> str:
    """Return the content of a small regular file without its end of line, "" when there is none."""
    data = _read_regular(path)
    return "" if data is None else data.decode("utf-8", "replace").rstrip("\n")


def read_pointer(path: str) -> bytes:
    """Return the bytes of the `.git` file of the worktree `path`, b"" when it is no plain file."""
    return _read_regular(os.path.join(path, ".git")) or b""


def _read_regular(path: str) -> bytes | None:
    """Return the first 8 KiB of a regular file; None for anything else. Of every worktree some are
    read in every look around: without a file object it takes half of the time."""
    try:
        descriptor = os.open(path, OPEN_PLAINLY)
    except (OSError, ValueError):
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None
        return read_up_to(descriptor, _POINTER_MAX_BYTES, found.st_size)
    finally:
        os.close(descriptor)


def read_up_to(descriptor: int, size: int, left: int) -> bytes:
    """Return at most `size` bytes from where a descriptor stands, fewer at the end of its file;
    that is not looked for where `left` bytes were read, which it had just now."""
    data = os.read(descriptor, size)
    while data and len(data) < size and len(data) != left:
        more = os.read(descriptor, size - len(data))
        if not more:
            break
        data += more
    return data


def _open_regular(path: str) -> int | None:
    """Open a regular file; a link, a pipe that would block us, or nothing is None."""
    try:
        descriptor = os.open(path, OPEN_PLAINLY)
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None
