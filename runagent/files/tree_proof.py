"""Whether a tree is, to the last file, what it was before: one digest to hold against another.

The proof is made of what the system says of every name, as the manifest has it: whoever wrote to a
file, added, moved or linked one, has moved a time that only the system sets. What cannot be looked
at proves nothing. A proof holds within one boot: a checkout is not flushed, and some file systems
have the size and the times of a file after a power cut, and not its bytes.
"""

from __future__ import annotations

import hashlib
import os
from typing import Final

from runagent.deadline import Deadline
from runagent.files.manifest import TELLS_CHANGES, Manifest, joined
from runagent.files.manifest_walk import take_manifest

_BOOT: Final = "/proc/sys/kernel/random/boot_id"


def proof_of(tree: str, deadline: Deadline) -> str:
    """Return a digest of every name below `tree` and of all that the system says of it, but for the
    time at which it was read. "" when that proves nothing: something could not be looked at, a
    `.git` stands there, or the system does not tell of changes. Raises OSError for a folder that
    went away meanwhile."""
    return prove(tree, deadline)[0]


def prove(tree: str, deadline: Deadline) -> tuple[str, Manifest]:
    """Return what `proof_of` does, and the look that it was made of, with the file system's clock.
    Raises as that does."""
    if not TELLS_CHANGES or os.path.lexists(os.path.join(tree, ".git")):
        return "", Manifest()
    manifest = take_manifest(tree, deadline, asks_clock=True)
    return _digest_of(tree, manifest), manifest


def _digest_of(tree: str, manifest: Manifest) -> str:
    if manifest.problems or manifest.unreadable or not manifest.is_whole:
        return ""
    digest = hashlib.sha256(_boot())
    root = os.fsencode(tree)
    for folder in sorted(manifest.folders):
        found = os.lstat(joined(root, folder) if folder else root)
        told = (found.st_mode, found.st_uid, found.st_gid, found.st_ino, found.st_mtime_ns)
        digest.update(b"%r %d %r\0" % (folder, found.st_ctime_ns, told))
        for name, item in sorted(manifest.folders[folder].items()):
            digest.update(b"%d %d " % (len(name), len(item)) + name + item)
    return digest.hexdigest()


def _boot() -> bytes:
    """Return what this boot is called, nothing where the system has no name for it."""
    try:
        with open(_BOOT, "rb") as file:
            return file.read()
    except OSError:
        return b""
