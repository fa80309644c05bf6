"""Whether the objects that a patch is made against are what their names say.

Git reads an object by its name and does not hash what it finds. An agent without a box can write
into the repository's object files, and a patch against a rewritten start hides what was changed.
So the start's commit, its trees, and each blob that the patch shows the old side of are hashed here
first. It must never believe the type or the size that git tells without the hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

from contracts.errors import CouldNotCheck
from runagent.deadline import Deadline
from runagent.git.shadow_git import OUTPUT_MAX_BYTES, ShadowGit

_REMEDY: Final = "run git fsck in the repository; its objects are not what they were"
_BATCH_BYTES: Final = OUTPUT_MAX_BYTES // 2
_LINK: Final = b"160000"


def verify_start(shadow: ShadowGit, commit: str, tree: str, deadline: Deadline) -> None:
    """Return if the objects of `commit` that a patch to `tree` is made from are sound.

    Raises CouldNotCheck naming one that is not, or that is too large to be checked (32 MiB).
    """
    _verify(shadow, [commit.encode("ascii")], deadline)
    listing, _ = shadow.run(("ls-tree", "-r", "-t", "-d", "-z", commit), deadline)
    entries = [record.split(b"\t")[0].split(b" ") for record in listing.split(b"\0") if record]
    # A submodule's commit is listed as well, and lies in another repository.
    trees = [words[2] for words in entries if words[1] == b"tree"]
    root, _ = shadow.run(("rev-parse", "--verify", f"{commit}^{{tree}}"), deadline)
    _verify(shadow, [root.strip(), *trees], deadline)
    raw, _ = shadow.run(("diff-tree", "-r", "-z", "--raw", "--no-renames", commit, tree), deadline)
    old = [field.split(b" ") for field in raw.split(b"\0") if field.startswith(b":")]
    blobs = [words[2] for words in old if words[0] != b":" + _LINK and words[2].strip(b"0")]
    _verify(shadow, blobs, deadline)


def _verify(shadow: ShadowGit, names: Iterable[bytes], deadline: Deadline) -> None:
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return
    listing, _ = shadow.run(
        ("cat-file", "--batch-check"), deadline, stdin=b"\n".join(wanted) + b"\n"
    )
    batch: list[bytes] = []
    room = _BATCH_BYTES
    for name, line in zip(wanted, listing.splitlines(), strict=False):
        words = line.split(b" ")
        size = int(words[2]) if len(words) == 3 and words[2].isdigit() else 0
        if size > _BATCH_BYTES:
            raise _unsound(name, "is too large to be checked")
        if size > room:
            _verify_batch(shadow, batch, deadline)
            batch, room = [], _BATCH_BYTES
        batch.append(name)
        room -= size
    _verify_batch(shadow, batch, deadline)


def _verify_batch(shadow: ShadowGit, names: Sequence[bytes], deadline: Deadline) -> None:
    data, _ = shadow.run(("cat-file", "--batch"), deadline, stdin=b"\n".join(names) + b"\n")
    at = 0
    for name in names:
        head, _, _ = data[at : at + 200].partition(b"\n")
        words = head.split(b" ")
        if len(words) != 3 or not words[2].isdigit():
            raise _unsound(name, "is missing")
        start = at + len(head) + 1
        content = data[start : start + int(words[2])]
        digest = hashlib.sha1(usedforsecurity=False) if len(name) == 40 else hashlib.sha256()
        digest.update(b"%s %d\0" % (words[1], len(content)))
        digest.update(content)
        if digest.hexdigest().encode("ascii") != name:
            raise _unsound(name, "is not what its name says")
        at = start + len(content) + 1


def _unsound(name: bytes, what: str) -> CouldNotCheck:
    return CouldNotCheck(
        f"the object {name.decode('ascii', 'replace')} of the start {what}", remedy=_REMEDY
    )
