"""What the journal forgets, and when: pure SQL over one open transaction.

Never forgets a job that could still be asked for, delivered or replayed.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Final

from contracts import limits
from worker.journal.records import HTTP_DOOR, LOCAL_SENDER

# A job without a result that is past its time was declined here and belongs to another host. A
# local run is owed to nobody, and what came by HTTP alone is fetched or not: they are kept as long
# as a delivered result.
_OLD_END: Final = """
    (result NOT NULL AND :kept > (SELECT max(at) FROM transitions WHERE job = jti))
"""
_OLD_HTTP: Final = f"(json_extract(facts, '$.door') = :http AND {_OLD_END})"
_FORGET_JOBS: Final = f"""
    DELETE FROM jobs WHERE exp < :replayable AND (
        published_at < :kept
        OR {_OLD_HTTP}
        OR (result IS NULL AND 'refused' =
            (SELECT state FROM transitions WHERE job = jti ORDER BY id DESC LIMIT 1))
        OR (iss = :local AND {_OLD_END}))
"""  # noqa: S608 - constants
_FORGOTTEN_FACTS: Final = f"""
    SELECT facts FROM jobs WHERE exp < :replayable AND (published_at < :kept OR {_OLD_HTTP})
"""  # noqa: S608 - constants
_FORGET_ROWS: Final = (
    "DELETE FROM transitions WHERE job NOT IN (SELECT jti FROM jobs)",
    "DELETE FROM processes WHERE job NOT IN (SELECT jti FROM jobs)",
)


def forget_old(database: sqlite3.Connection, now: float) -> tuple[int, float]:
    """Forget delivered jobs that nobody may ask for any more; return how many, and the moment
    before which no job may be accepted because of that (0 when none was issued).

    A job goes when its result's seven days are over and its envelope has expired for good: from
    then on the check of the claims alone refuses a replay. Should the clock have been wrong, and
    go back, that moment refuses it: nothing as old as what was forgotten is taken again.
    """
    bounds = {
        "kept": now - limits.RESULT_TTL_S,
        "replayable": int(now - 2 * limits.SKEW_S),
        "local": LOCAL_SENDER,
        "http": HTTP_DOOR,
    }
    rows = database.execute(_FORGOTTEN_FACTS, bounds).fetchall()
    issued = [int(json.loads(row["facts"]).get("iat", 0)) for row in rows]
    forgotten = database.execute(_FORGET_JOBS, bounds).rowcount
    for statement in _FORGET_ROWS:
        database.execute(statement)
    return forgotten, max((moment + 1.0 for moment in issued), default=0.0)
