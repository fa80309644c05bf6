"""The private folders of the jobs below the state folder: nothing stays longer than it is of use.

A folder goes when the journal has forgotten its job and the folder is as old as that, unless it
keeps commits that did not come home: those are a person's to remove. A staged prompt goes as soon
as its job has ended. Follows no link; touches nothing without a job's name.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from contracts import limits
from contracts.clock import Clock
from contracts.ids import is_job_id
from runagent.launch import remove_staged
from runagent.sandbox.box_folder import keeps_commits
from worker.journal.journal import Journal


class RunFolders:
    """The folders below one root."""

    def __init__(self, root: Path, journal: Journal, clock: Clock) -> None:
        self._root = root
        self._journal = journal
        self._clock = clock

    def tidy(self) -> int:
        """Remove what is of no use any more; return how many folders went. What cannot be removed
        stays for the next time. May raise the journal's errors."""
        removed = 0
        for folder in self._folders():
            record = self._journal.find(folder.name)
            if record is None or record.result is not None:
                remove_staged(str(folder))
            if record is None and self._is_old(folder) and not keeps_commits(str(folder)):
                shutil.rmtree(folder, ignore_errors=True)
                removed += not folder.exists()
        return removed

    def _folders(self) -> Iterator[Path]:
        try:
            names = sorted(path.name for path in self._root.iterdir())
        except OSError:
            return  # no job was ever run here
        for name in names:
            folder = self._root / name
            if is_job_id(name) and folder.is_dir() and not folder.is_symlink():
                yield folder

    def _is_old(self, folder: Path) -> bool:
        """Compare by the folder's own time: a journal that was lost knows no job at all."""
        try:
            return folder.stat().st_mtime < self._clock.wall() - limits.RESULT_TTL_S
        except OSError:
            return False
