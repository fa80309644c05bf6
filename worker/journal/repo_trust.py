"""The repositories that a job left with planted programs: refused until a person trusts them again.

One row per repository in the journal, keyed by its shared git directory. Reads and writes rows, and
never the repository itself.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Final

from contracts.clock import Clock
from contracts.errors import RepositoryRefused
from validation.inert import one_line
from worker.journal.store import JournalFile

_WHY_MAX_ITEMS: Final = 100
_WHY_MAX_CHARS: Final = 300
_NAMED: Final = 5

_QUARANTINE: Final = """
    INSERT INTO repositories (common_dir, repo, quarantined_at, job, why)
    VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (common_dir) DO UPDATE SET repo = ?2, why = ?5,
        job = CASE WHEN quarantined_at IS NULL THEN ?4 ELSE job END,
        quarantined_at = coalesce(quarantined_at, ?3)
"""
_TRUST: Final = """
    UPDATE repositories SET quarantined_at = NULL, trusted_at = ?, trusted = why, why = '[]'
    WHERE common_dir = ? AND quarantined_at NOT NULL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepoRecord:
    """What is known of one repository. Times are Unix seconds, None when it never happened.

    `why` names what was planted by `job`, `trusted` what a person took over last.
    """

    common_dir: str
    repo: str
    quarantined_at: float | None
    job: str
    why: tuple[str, ...]
    trusted_at: float | None
    trusted: tuple[str, ...]

    @property
    def is_quarantined(self) -> bool:
        """Say whether jobs on it are refused."""
        return self.quarantined_at is not None


class JournalRepoTrust:
    """The repositories of one journal; a `runagent.trees.repo_trust.RepoTrust`."""

    def __init__(self, file: JournalFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock

    def check(self, common_dir: str) -> None:
        """See RepoTrust.check."""
        record = self.find(common_dir)
        if record is not None and record.is_quarantined:
            raise quarantined(record)

    def quarantine(self, common_dir: str, *, repo: str, job_id: str, why: tuple[str, ...]) -> None:
        """See RepoTrust.quarantine."""
        shown = tuple(one_line(item, _WHY_MAX_CHARS) for item in why)
        with self._file.writing() as database:
            known = _find(database, common_dir)
            earlier = known.why if known is not None and known.is_quarantined else ()
            told = list(dict.fromkeys((*earlier, *shown)))[:_WHY_MAX_ITEMS]
            now = self._clock.wall()
            database.execute(_QUARANTINE, (common_dir, repo, now, job_id, json.dumps(told)))

    def trust(self, common_dir: str) -> bool:
        """Take a repository back; say whether it was set aside."""
        with self._file.writing() as database:
            changed = database.execute(_TRUST, (self._clock.wall(), common_dir))
        return changed.rowcount > 0

    def find(self, common_dir: str) -> RepoRecord | None:
        """Return what is known of one repository, or None."""
        with self._file.reading() as database:
            return _find(database, common_dir)

    def all(self) -> list[RepoRecord]:
        """Return every repository that was ever set aside, those that are now first."""
        with self._file.reading() as database:
            rows = database.execute(
                "SELECT * FROM repositories ORDER BY quarantined_at IS NULL, repo"
            ).fetchall()
        return [_read(row) for row in rows]


def quarantined(record: RepoRecord) -> RepositoryRefused:
    """Return the refusal of a repository that was set aside."""
    more = f" and {len(record.why) - _NAMED} more" if len(record.why) > _NAMED else ""
    return RepositoryRefused(
        f"{record.repo} was set aside: during job {record.job} its git settings or hooks gained "
        f"what git would run: {', '.join(record.why[:_NAMED])}{more}",
        code="repo_quarantined",
        remedy=f"look at them, then on this host: fleet-dispatch repo trust {record.repo}",
    )


def _find(database: sqlite3.Connection, common_dir: str) -> RepoRecord | None:
    row = database.execute(
        "SELECT * FROM repositories WHERE common_dir = ?", (common_dir,)
    ).fetchone()
    return None if row is None else _read(row)


def _read(row: sqlite3.Row) -> RepoRecord:
    return RepoRecord(
        common_dir=row["common_dir"],
        repo=row["repo"],
        quarantined_at=row["quarantined_at"],
        job=row["job"],
        why=tuple(json.loads(row["why"])),
        trusted_at=row["trusted_at"],
        trusted=tuple(json.loads(row["trusted"])),
    )
