"""The spare trees of this host in the journal: made, waiting, or taken by a job.

A row is written before its folder is made and struck out after the folder is gone, so that a folder
without a row, and a row whose process is gone, are what a crash left. Spares stand in a table of
their own: no list and no collection of worktrees ever sees one. Removes nothing itself.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Final

from contracts.clock import Clock
from runagent.trees.spare import Spare
from worker.journal.owners import is_alive, this_process
from worker.journal.store import JournalFile
from worker.journal.trees import LEASE_S

_READY: Final = "proof != '' AND job = ''"
_PLAN: Final = """
    INSERT INTO spares (name, common_dir, repo, base_commit, made_at, owner)
    VALUES (?, ?, ?, ?, ?, ?)
"""
_STANDS: Final = """
    UPDATE spares SET repository = ?, manner = ?, proof = ?, index_sha256 = ?, bytes = ?
    WHERE name = ? AND job = ''
"""
_IN_USE: Final = """
    SELECT common_dir, repo, base_commit, max(made_at) AS last FROM trees
    WHERE made_at >= ? GROUP BY common_dir ORDER BY last DESC LIMIT ?
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpareRecord:
    """A spare as the register knows it. `made_at` is in Unix seconds."""

    name: str
    common_dir: str
    repo: str
    repository: str
    base_commit: str
    manner: str
    proof: str  # "" until it stands
    index_sha256: str
    bytes: int
    made_at: float  # or taken
    owner: str  # of the process that makes it, or took it
    job: str  # that took it

    @property
    def is_ready(self) -> bool:
        """Say whether it stands and nobody took it."""
        return bool(self.proof) and not self.job


@dataclass(frozen=True, slots=True)
class RepositoryInUse:
    """A repository that had a job lately, and where the last one started."""

    common_dir: str
    repo: str
    base_commit: str


class JournalSpares:
    """The spares of one journal."""

    def __init__(self, file: JournalFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._owner = this_process()

    def plan(self, name: str, used: RepositoryInUse) -> None:
        """Write down that a spare is about to be made."""
        values = (name, used.common_dir, used.repo, used.base_commit, self._clock.wall())
        with self._file.writing() as database:
            database.execute(_PLAN, (*values, self._owner))

    def stands(self, spare: Spare, *, size: int) -> None:
        """Write down that a spare stands and may be taken; `size` are its bytes on the disk."""
        facts = (spare.repository, spare.manner, spare.proof, spare.index_sha256)
        with self._file.writing() as database:
            database.execute(_STANDS, (*facts, size, spare.name))

    def take(self, common_dir: str, job_id: str) -> SpareRecord | None:
        """Give a job a spare of that repository, one that nobody else has or gets; or None."""
        query = f"SELECT * FROM spares WHERE common_dir = ? AND {_READY} ORDER BY made_at DESC"  # noqa: S608 - a constant
        with self._file.reading() as database:
            if database.execute(query, (common_dir,)).fetchone() is None:
                return None
        with self._file.writing() as database:
            row = database.execute(query, (common_dir,)).fetchone()
            if row is None:
                return None
            values = (job_id, self._owner, self._clock.wall(), row["name"])
            database.execute(
                "UPDATE spares SET job = ?, owner = ?, made_at = ? WHERE name = ?", values
            )
        return _record(row)

    def give_up(self, name: str) -> bool:
        """Take a spare that nobody has, so as to remove it; say whether it is ours."""
        with self._file.writing() as database:
            return (
                database.execute(
                    f"UPDATE spares SET job = '-', owner = ? WHERE name = ? AND {_READY}",  # noqa: S608 - a constant
                    (self._owner, name),
                ).rowcount
                > 0
            )

    def strike_out(self, name: str) -> None:
        """Strike out a spare of which nothing is left."""
        with self._file.writing() as database:
            database.execute("DELETE FROM spares WHERE name = ?", (name,))

    def all(self) -> list[SpareRecord]:
        """Return every spare, the newest first."""
        with self._file.reading() as database:
            rows = database.execute("SELECT * FROM spares ORDER BY made_at DESC").fetchall()
        return [_record(row) for row in rows]

    def left_behind(self) -> list[SpareRecord]:
        """Return spares that a process was making, or had taken, when it was lost."""
        return [record for record in self.all() if not record.is_ready and self._is_lost(record)]

    def last_end(self) -> int:
        """Return a number that is another one after each end of a job, 0 before the first."""
        query = "SELECT id FROM transitions WHERE state = 'done' ORDER BY id DESC LIMIT 1"
        with self._file.reading() as database:
            row = database.execute(query).fetchone()
        return 0 if row is None else int(row["id"])

    def repositories_in_use(self, since: float, limit: int) -> list[RepositoryInUse]:
        """Return at most `limit` repositories that had a job since the Unix time `since`, the
        latest first."""
        with self._file.reading() as database:
            rows = database.execute(_IN_USE, (since, limit)).fetchall()
        return [RepositoryInUse(row["common_dir"], row["repo"], row["base_commit"]) for row in rows]

    def _is_lost(self, record: SpareRecord) -> bool:
        """Say whether the process that has a spare is gone. One that cannot be seen from here, in
        another container, is given longer than a run takes."""
        alive = record.owner == self._owner or is_alive(record.owner)
        unseen_s = self._clock.wall() - record.made_at
        return alive is False or (alive is None and unseen_s > LEASE_S)


def _record(row: sqlite3.Row) -> SpareRecord:
    return SpareRecord(**dict(row))
