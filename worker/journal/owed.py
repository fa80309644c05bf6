"""The results that a host still owes: read oldest first, and few at a time.

Reads alone. What is owed is the condition of an index, so a look costs what is owed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Final

from worker.journal.records import HTTP_DOOR, LOCAL_SENDER, SELECT_JOBS, JobRecord, read_record
from worker.journal.store import JournalFile

# A result that no sender's side holds: the condition of the index `jobs_kept_here`, word for word.
KEPT_HERE: Final = "published_at IS NULL AND result NOT NULL"
# Of these what is owed, and so the index `jobs_owed`: a local run owes nobody a message, and what
# came by HTTP alone is fetched there. Jobs of an earlier version have no door: a queue.
_OWED: Final = (
    f"{KEPT_HERE} AND iss != '{LOCAL_SENDER}'"
    f" AND coalesce(json_extract(facts, '$.door'), '') != '{HTTP_DOOR}'"
)
_PAGE: Final = 50  # results read at once: some of them have a megabyte


def read_owed(file: JournalFile, besides: Sequence[str] = ()) -> Iterator[JobRecord]:
    """Yield the queued jobs whose result was not delivered yet, oldest first, without the few in
    `besides`. Those that are delivered meanwhile, or never can be, keep no later one back."""
    apart = tuple(besides)
    page: list[JobRecord] = []
    while True:
        with file.reading() as database:
            page = _page(database, page[-1] if page else None, apart)
        yield from page
        if len(page) < _PAGE:
            return


def _page(
    database: sqlite3.Connection, after: JobRecord | None, besides: tuple[str, ...]
) -> list[JobRecord]:
    behind = (0.0, "") if after is None else (after.claimed_at, after.jti)
    query = (
        f"{SELECT_JOBS} {_OWED} AND (claimed_at, jti) > (?, ?)"
        f" AND jti NOT IN ({', '.join('?' * len(besides))}) ORDER BY claimed_at, jti LIMIT ?"
    )
    rows = database.execute(query, (*behind, *besides, _PAGE))
    return [read_record(row) for row in rows]
