"""A journal of many ended jobs, written at once: rows as a listener leaves them.

Of ten jobs eight came over a queue and were delivered, one is a local run and one came by HTTP; ten
have no end, whatever the size. Each has six transitions, two
processes and a result of some 1,500 bytes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from contracts.clock import SystemClock
from worker.journal.journal import Journal
from worker.journal.owners import this_process
from worker.journal.records import HTTP_DOOR, LOCAL_SENDER

_STATES: Final = ("claimed", "started", "agent_done", "validated", "done", "published")
_SUMMARY: Final = "It was changed as asked, and the tests hold. " * 25
_DAY_S: Final = 86_400
_OPEN: Final = 10  # how many run at once does not grow with what is remembered
_LOCAL, _HTTP = 8, 9  # the remainder of ten


def job_id_of(number: int) -> str:
    """Return the id of the job `number` of a filled journal."""
    return f"{number:020x}"


def fill_journal(path: Path, jobs: int) -> None:
    """Write `jobs` into the new journal at `path`, the oldest six days old: nothing of them may be
    forgotten yet."""
    clock = SystemClock()
    Journal(path, clock).close()
    now = clock.wall()
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.execute("PRAGMA synchronous = OFF")
        database.execute("BEGIN")
        owner = this_process()
        began = [now - 6 * _DAY_S * (jobs - number) / jobs for number in range(jobs)]
        database.executemany(
            "INSERT INTO jobs (jti, iss, kind, lane, aud, job_sha256, exp, claimed_at, owner,"
            " facts, worktree, result, sealed, published_at) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (_job(number, at, owner) for number, at in enumerate(began)),
        )
        database.executemany(
            "INSERT INTO transitions (job, attempt, state, at, pid, why) VALUES (?,?,?,?,?,'')",
            _transitions(began),
        )
        database.executemany(
            "INSERT INTO processes (job, pid, started, role, marker, at, ended_at)"
            " VALUES (?,?,?,?,?,?,?)",
            _processes(began),
        )
        database.execute("COMMIT")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        database.close()


def age_journal(path: Path, days: float) -> None:
    """Let everything in the journal at `path` be `days` older."""
    seconds = days * _DAY_S
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA synchronous = OFF")
        database.execute(
            "UPDATE jobs SET exp = exp - ?1, claimed_at = claimed_at - ?1,"
            " published_at = published_at - ?1",
            (int(seconds),),
        )
        database.execute("UPDATE transitions SET at = at - ?", (seconds,))
    database.close()


def _job(number: int, at: float, owner: str) -> tuple[object, ...]:
    kind = number % 10
    iss = LOCAL_SENDER if kind == _LOCAL else "alice"
    facts = {"agent": "codex", "ticket": f"T-{number}", "repo": "/srv/app", "iat": str(int(at))}
    if kind == _HTTP:
        facts["door"] = HTTP_DOOR
    is_open = number < _OPEN
    result = json.dumps({"status": "completed", "summary": _SUMMARY, "jobId": job_id_of(number)})
    queued = kind not in (_LOCAL, _HTTP)
    return (
        *(job_id_of(number), iss, "run_agent", "L", "host:HOSTA", "0" * 64, int(at) + 3_600, at),
        *(owner, json.dumps(facts), f"/srv/app-agents/{job_id_of(number)}"),
        None if is_open else result.encode(),
        None if is_open else "sealed " + result[:500],
        at + 60 if queued and not is_open else None,
    )


def _transitions(began: list[float]) -> Iterator[tuple[object, ...]]:
    for number, at in enumerate(began):
        states = _STATES[:2] if number < _OPEN else _STATES
        for place, state in enumerate(states):
            yield job_id_of(number), min(place, 1), state, at + 10 * place, 4_000


def _processes(began: list[float]) -> Iterator[tuple[object, ...]]:
    for number, at in enumerate(began):
        for role in ("run", "agent"):
            yield job_id_of(number), 4_000, at, role, f"{role}-{number:x}", at, at + 50
