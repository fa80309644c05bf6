"""The private folders of the jobs below the state folder: nothing stays longer than it is of use.

A folder goes when the journal has forgotten its job and the folder is as old as that, unless it
keeps commits that did not come home: those are a person's to remove. A staged prompt goes as soon
as its job has ended. Follows no link; touches nothing without a job's name.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from contracts import limits
from contracts.clock import Clock
from contracts.ids import is_job_id
from runagent.launch import remove_staged
from runagent.sandbox.box_folder import keeps_commits
from worker.journal.journal import Journal

_AT_ONCE: Final = 200  # folders that the journal is asked about with one question


class RunFolders:
    """The folders below one root."""

    def __init__(self, root: Path, journal: Journal, clock: Clock) -> None:
        self._root = root
        self._journal = journal
        self._clock = clock

    def tidy(self, stopped: Callable[[], bool] = lambda: False) -> int:
        """Remove what is of no use any more; return how many folders went. What cannot be removed
        stays for the next time. Ends soon when `stopped()`. May raise the journal's errors."""
        removed = 0
        folders = self._folders()
        while not stopped() and (some := list(itertools.islice(folders, _AT_ONCE))):
            ends = self._journal.ends([folder.name for folder in some])
            for folder in some:
                if ends.get(folder.name, True):
                    remove_staged(str(folder))
                if folder.name not in ends:
                    removed += self._remove_old(folder)
        return removed

    def _remove_old(self, folder: Path) -> bool:
        if not self._is_old(folder) or keeps_commits(str(folder)):
            return False
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

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
