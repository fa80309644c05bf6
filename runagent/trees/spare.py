"""A spare tree: checked out ahead of time, with no branch and unknown to git, waiting for a job.

Owns the value and the protocol of whoever keeps spares. A spare without its proof
(`runagent/files/tree_proof.py`) is never handed over.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import Final, Protocol

TREE: Final = "tree"
SHADOW: Final = "shadow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spare:
    """A spare. `folder` is private, and holds the tree and the host's git directory for it."""

    name: str
    folder: str
    common_dir: str  # of its repository, free of links
    repository: str  # `identity_of_repository` when it was made
    base_commit: str
    manner: str  # `manner_of` the checkout
    proof: str  # `proof_of` the tree, "" when there is none
    index_sha256: str

    @property
    def tree(self) -> str:
        """Return the folder of the files."""
        return os.path.join(self.folder, TREE)

    @property
    def index(self) -> str:
        """Return the index that was written with the files."""
        return os.path.join(self.folder, SHADOW, "index")


class SpareStore(Protocol):
    """Lends spares; both may be called from several processes at once."""

    def take(self, common_dir: str, job_id: str) -> Spare | None:
        """Return a spare of that repository, from now on this job's alone; None when there is none.
        Raises Unavailable or CouldNotCheck."""
        ...

    def discard(self, spare: Spare) -> None:
        """Remove what is left of a spare that was taken, and strike it out. Never raises."""
        ...


class NoSpares:
    """Has none."""

    def take(self, common_dir: str, job_id: str) -> Spare | None:
        """See SpareStore.take."""

    def discard(self, spare: Spare) -> None:
        """See SpareStore.discard."""


NO_SPARES: Final = NoSpares()


def digest_of(path: str) -> str:
    """Return the SHA-256 of a file that the host wrote. Raises OSError."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def identity_of_repository(common_dir: str) -> str:
    """Return what tells a repository from another one that was cloned into its place. Raises
    OSError."""
    found = [os.stat(path) for path in (common_dir, os.path.join(common_dir, "objects"))]
    return " ".join(f"{status.st_dev}:{status.st_ino}" for status in found)
