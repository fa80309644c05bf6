"""What is asked of the journal: plain SQL over one open connection, rows read into values.

Changes nothing but the two small notes in `meta`.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Sequence

from worker.journal.records import (
    HTTP_DOOR,
    SELECT_JOBS,
    JobRecord,
    Transition,
    read_record,
    read_transition,
)


def find(database: sqlite3.Connection, job_id: str) -> JobRecord | None:
    """Return the record of a job, or None."""
    row = database.execute(f"{SELECT_JOBS} jti = ?", (job_id,)).fetchone()
    return None if row is None else read_record(row)


def ends(database: sqlite3.Connection, job_ids: Sequence[str]) -> dict[str, bool]:
    """Return of each known job whether it has a result. At most some hundred ids at once."""
    marks = ", ".join("?" for _ in job_ids)
    query = f"SELECT jti, result NOT NULL AS has_end FROM jobs WHERE jti IN ({marks})"  # noqa: S608 - marks alone
    return {row["jti"]: bool(row["has_end"]) for row in database.execute(query, job_ids)}


def recent(database: sqlite3.Connection, limit: int) -> list[JobRecord]:
    """Return at most `limit` of the newest jobs, the newest first."""
    query = f"{SELECT_JOBS} TRUE ORDER BY claimed_at DESC LIMIT ?"
    return [read_record(row) for row in database.execute(query, (limit,))]


def without_end(database: sqlite3.Connection) -> list[JobRecord]:
    """Return the jobs without a result, oldest first."""
    query = f"{SELECT_JOBS} result IS NULL ORDER BY claimed_at"
    return [read_record(row) for row in database.execute(query)]


def note_queued(database: sqlite3.Connection, job_id: str) -> bool:
    """Note that a job which came by HTTP came over a queue, too; say whether that is news."""
    changed = database.execute(
        "UPDATE jobs SET facts = json_set(facts, '$.door', ?), published_at = NULL"
        " WHERE jti = ? AND json_extract(facts, '$.door') = ?",
        (f"{HTTP_DOOR}, queue", job_id, HTTP_DOOR),
    )
    return changed.rowcount > 0


def history(database: sqlite3.Connection, job_id: str) -> list[Transition]:
    """Return the transitions of a job in the order in which they were written."""
    query = "SELECT attempt, state, at, pid, why FROM transitions WHERE job = ? ORDER BY id"
    return [read_transition(row) for row in database.execute(query, (job_id,))]


def number(database: sqlite3.Connection, key: str) -> float:
    """Return a number of the journal itself, 0 when it was never set."""
    row = database.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return 0.0 if row is None else float(row["value"])


def set_number(database: sqlite3.Connection, key: str, value: float) -> None:
    """Set a number of the journal itself."""
    database.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, repr(value)))


def instance(database: sqlite3.Connection) -> str:
    """Return the random name of this journal, given at the first call."""
    query = "INSERT OR IGNORE INTO meta (key, value) VALUES ('instance', ?)"
    database.execute(query, (secrets.token_hex(8),))
    row = database.execute("SELECT value FROM meta WHERE key = 'instance'").fetchone()
    return str(row["value"])
