"""The folders of the spare trees, below the state folder, and the register that says whose each is.

The state folder is hidden from every agent in a box, whole and at all times, so a spare is neither
seen nor written there. What is removed here is a direct child of the shelf and nothing else.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from contracts.errors import FleetError
from contracts.sandbox import Capability
from runagent.sandbox.protocol import Sandbox
from runagent.trees.spare import NO_SPARES, Spare, SpareStore
from runagent.trees.tree_removal import remove_child
from worker.journal.journal import Journal
from worker.journal.spares import JournalSpares, SpareRecord
from worker.settings import HostSettings

_HIDES: Final = frozenset({Capability.WRITES, Capability.KEYS})


class SpareShelf:
    """The shelf of one host; a `SpareStore`."""

    def __init__(self, spares: JournalSpares, folder: Path) -> None:
        """`folder` holds a folder for each spare and nothing else; it need not be there."""
        self._spares = spares
        self.folder = folder

    def place(self, name: str) -> str:
        """Return the folder of a spare."""
        return str(self.folder / name)

    def take(self, common_dir: str, job_id: str) -> Spare | None:
        """See SpareStore.take."""
        record = self._spares.take(common_dir, job_id)
        if record is None:
            return None
        return Spare(
            name=record.name,
            folder=self.place(record.name),
            common_dir=record.common_dir,
            repository=record.repository,
            base_commit=record.base_commit,
            manner=record.manner,
            proof=record.proof,
            index_sha256=record.index_sha256,
        )

    def discard(self, spare: Spare) -> None:
        """See SpareStore.discard. What stays is removed by the next start."""
        with contextlib.suppress(FleetError, OSError):
            self.remove(spare.name)

    def remove(self, name: str) -> None:
        """Remove what stands of a spare that nobody else has, and strike it out. Raises OSError,
        Unavailable or CouldNotCheck."""
        if self.folder.is_dir():
            remove_child(str(self.folder), name)
        self._spares.strike_out(name)

    def drop(self, record: SpareRecord) -> bool:
        """Remove a spare that no job has taken; say whether it was there to be removed."""
        if not self._spares.give_up(record.name):
            return False
        self.remove(record.name)
        return True

    def sweep(self) -> int:
        """Remove what lost processes left, and folders that the register does not know; return how
        many. Not beside another process that makes spares for the same register."""
        left = [record.name for record in self._spares.left_behind()]
        # Folders first: whoever makes a spare writes its row before its folder.
        folders = os.listdir(self.folder) if self.folder.is_dir() else []
        known = {record.name for record in self._spares.all()}
        unknown = [name for name in folders if name not in known]
        for name in (*left, *unknown):
            self.remove(name)
        return len(left) + len(unknown)


def lent_spares(settings: HostSettings, journal: Journal, sandbox: Sandbox) -> SpareStore:
    """Return the spares that a run in `sandbox` may take: none where agents could get at them."""
    if not settings.worktrees.spares or not hides_spares(sandbox):
        return NO_SPARES
    return SpareShelf(journal.spares, shelf_folder(settings.state_dir))


def hides_spares(sandbox: Sandbox) -> bool:
    """Say whether `sandbox` keeps an agent from reading and writing the state folder."""
    return sandbox.enforces >= _HIDES


def shelf_folder(state_dir: Path) -> Path:
    """Return where the spares stand: the real place, as boxes hide it."""
    return Path(os.path.realpath(state_dir)) / "spares"
