"""What the journal forgets, and when: SQL, some jobs in a transaction.

Never forgets a job that could still be asked for, delivered or replayed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Final

from contracts import limits
from contracts.clock import Clock
from worker.journal import cancels, epoch
from worker.journal.owed import KEPT_HERE
from worker.journal.records import HTTP_DOOR, LOCAL_SENDER
from worker.journal.store import JournalFile

FORGOTTEN_AT_ONCE: Final = 500  # some 20 ms of a transaction that every claim waits for
_OLD_END: Final = ":kept > (SELECT max(at) FROM transitions WHERE job = jti)"
_OF_HTTP: Final = "json_extract(facts, '$.door') = :http"

# Each of the three is found by an index of its own, so that a look costs what there is to forget.
# A claim is the first transition of a job, so its time bounds the last one's from below.
_DELIVERED: Final = """
    SELECT jti, facts, TRUE AS was_issued FROM jobs
    WHERE published_at NOT NULL AND published_at < :kept AND exp < :replayable LIMIT :some
"""
# A local run is owed to nobody, and what came by HTTP alone is fetched or not: they are kept as
# long as a delivered result.
_KEPT_HERE: Final = f"""
    SELECT jti, facts, {_OF_HTTP} AS was_issued FROM jobs
    WHERE {KEPT_HERE} AND claimed_at < :kept AND exp < :replayable
    AND (iss = :local OR {_OF_HTTP}) AND {_OLD_END} LIMIT :some
"""  # noqa: S608 - constants
# A job without a result that is past its time was declined here and belongs to another host.
_DECLINED: Final = """
    SELECT jti, facts, FALSE AS was_issued FROM jobs
    WHERE result IS NULL AND exp < :replayable AND 'refused' =
        (SELECT state FROM transitions WHERE job = jti ORDER BY id DESC LIMIT 1) LIMIT :some
"""
_FORGET: Final = (
    "DELETE FROM jobs WHERE jti = ?",
    "DELETE FROM transitions WHERE job = ?",
    "DELETE FROM processes WHERE job = ?",
)


def forget_old(file: JournalFile, clock: Clock, stopped: Callable[[], bool]) -> int:
    """Forget what is old, some in a transaction and until none is left; return how many jobs."""
    total, forgotten = 0, 1
    while forgotten and not stopped():
        with file.writing() as database:
            now = clock.wall()
            forgotten, moment = _forget_some(database, now)
            epoch.refuse_before(database, max(moment, cancels.forget_old(database, now)))
        total += forgotten
    return total


def _forget_some(database: sqlite3.Connection, now: float) -> tuple[int, float]:
    """Forget delivered jobs that nobody may ask for any more, 500 of each sort at most; return how
    many, and the moment before which no job may be accepted because of that (0 when none was
    issued).

    A job goes when its result's seven days are over and its envelope has expired for good: from
    then on the check of the claims alone refuses a replay. Should the clock have been wrong, and
    go back, that moment refuses it: nothing as old as what was forgotten is taken again.
    """
    bounds = {
        "kept": now - limits.RESULT_TTL_S,
        "replayable": int(now - 2 * limits.SKEW_S),
        "local": LOCAL_SENDER,
        "http": HTTP_DOOR,
        "some": FORGOTTEN_AT_ONCE,
    }
    found = [
        row
        for query in (_DELIVERED, _KEPT_HERE, _DECLINED)
        for row in database.execute(query, bounds).fetchall()
    ]
    for statement in _FORGET:
        database.executemany(statement, [(row["jti"],) for row in found])
    issued = [int(json.loads(row["facts"]).get("iat", 0)) for row in found if row["was_issued"]]
    return len(found), max((moment + 1.0 for moment in issued), default=0.0)
