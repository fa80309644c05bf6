"""Which jobs were sent under which idempotency key, as it stands in the sender's record.

A key belongs to a sender's name and is remembered as long as its jobs are: 90 days.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AskedOnce:
    """A key of a sender, and what was asked for under it (see `idempotency.asked_text`)."""

    sender: str
    key: str
    asked: str


def find_key(connection: sqlite3.Connection, wanted: AskedOnce) -> tuple[str, list[str]] | None:
    """Return what was asked for under that key and the ids of its jobs, None when it is new."""
    named = (wanted.sender, wanted.key)
    query = "SELECT asked FROM keys WHERE sender = ? AND name = ?"
    row = connection.execute(query, named).fetchone()
    if row is None:
        return None
    query = "SELECT job_id FROM keyed WHERE sender = ? AND name = ? ORDER BY place"
    return str(row[0]), [str(item[0]) for item in connection.execute(query, named)]


def add_key(
    connection: sqlite3.Connection, new: AskedOnce, job_ids: Sequence[str], *, now: float
) -> None:
    """Write a new key with its jobs, which stand in the record already."""
    row = (new.sender, new.key, new.asked, int(now))
    connection.execute("INSERT INTO keys VALUES (?, ?, ?, ?)", row)
    rows = [(new.sender, new.key, place, job_id) for place, job_id in enumerate(job_ids)]
    connection.executemany("INSERT INTO keyed VALUES (?, ?, ?, ?)", rows)
