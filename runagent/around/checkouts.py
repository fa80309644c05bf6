"""What every checkout of a repository has its HEAD on, and which commits its HEAD was moved to.

Git writes a line into a checkout's own HEAD log whenever somebody commits, pulls, resets or
switches there. A branch that is checked out and moved without such a line was moved from elsewhere:
that tells an owner's commit from an agent's `update-ref`. It must never run git.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Final

from runagent.git.head import OPEN_PLAINLY, read_line, read_up_to

MAIN: Final = "the main checkout"
_CHECKOUTS_MAX: Final = 1_000
# A line has some 200 bytes. Before: enough to find the place again; after: what a job's owner and
# a long rebase may add to it.
_BEFORE_BYTES: Final = 64 * 1024
_AFTER_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Checkout:
    """One checkout: what its HEAD file says, and the last lines of its HEAD log (None: no log)."""

    head: str
    log: tuple[bytes, ...] | None

    @property
    def ref(self) -> str:
        """Return the full name of the branch that is checked out, "" when HEAD is detached."""
        return self.head.removeprefix("ref:").strip() if self.head.startswith("ref:") else ""


def read_checkouts(common_dir: str, *, own_admin_dir: str, after: bool) -> dict[str, Checkout]:
    """Return the checkouts of a repository by name, without the one of `own_admin_dir`."""
    size = _AFTER_BYTES if after else _BEFORE_BYTES
    found = {MAIN: _read(common_dir, size)}
    for name, folder in sibling_folders(common_dir, own_admin_dir):
        found[name] = _read(folder, size)
    return found


def sibling_folders(common_dir: str, own_admin_dir: str) -> list[tuple[str, str]]:
    """Return name and git directory of every linked worktree but the one of `own_admin_dir`."""
    try:
        with os.scandir(os.path.join(common_dir, "worktrees")) as entries:
            found = sorted(entries, key=lambda entry: entry.name)[:_CHECKOUTS_MAX]
    except OSError:
        return []
    return [
        (entry.name, entry.path)
        for entry in found
        if entry.path != own_admin_dir and not entry.is_symlink()
    ]


def moves_since(before: Checkout, now: Checkout) -> list[tuple[str, str]] | None:
    """Return (from, to) of each line that the HEAD log gained; None when there is no log to ask.

    Of a log that was written anew (`git gc` drops old lines) the last line alone is believed.
    """
    if now.log is None:
        return None
    earlier = set(before.log or ())
    gained: list[bytes] = []
    for line in reversed(now.log):
        if line in earlier:
            break
        gained.append(line)
    else:
        gained = gained[:1] if earlier else gained
    pairs = [line.split(b" ", 2)[:2] for line in reversed(gained)]
    return [(old.decode("ascii", "replace"), new.decode("ascii", "replace")) for old, new in pairs]


def _read(git_dir: str, size: int) -> Checkout:
    head = read_line(f"{git_dir}/HEAD")
    return Checkout(head, _last_lines(f"{git_dir}/logs/HEAD", size))


def _last_lines(path: str, size: int) -> tuple[bytes, ...] | None:
    try:
        descriptor = os.open(path, OPEN_PLAINLY)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None
        if found.st_size > size:
            os.lseek(descriptor, found.st_size - size, os.SEEK_SET)
        lines = read_up_to(descriptor, size, min(size, found.st_size)).split(b"\n")
    finally:
        os.close(descriptor)
    whole = lines if found.st_size <= size else lines[1:]
    return tuple(line for line in whole if line.count(b" ") > 1)
