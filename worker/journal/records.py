"""What the journal takes in and gives out: plain frozen values, read from its rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from contracts.run_agent import KIND
from worker.journal.schema import JobState

LOCAL_SENDER: Final = "local run"  # not a name a sender can have; such a run owes nobody a message
HTTP_DOOR: Final = "http"  # the fact `door` of a job that came by HTTP; else its queue's name

# Every column of a job, with the state and attempt of its newest transition.
SELECT_JOBS: Final = """
    SELECT jobs.*,
        (SELECT state FROM transitions WHERE job = jti ORDER BY id DESC LIMIT 1) AS state,
        (SELECT max(attempt) FROM transitions WHERE job = jti) AS attempt
    FROM jobs WHERE
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """What a claim writes down. `iat` is None for a local run; `facts` are small and hold neither
    the task nor anything secret (agent, ticket, mode, the repo as it is mapped on this host)."""

    jti: str
    iss: str = LOCAL_SENDER
    kind: str = KIND
    lane: str = ""
    aud: str = ""
    job_sha256: str = ""
    iat: int | None = None
    exp: int = 0
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job as the journal knows it; `result` is its result's JSON, `sealed` that one signed."""

    jti: str
    iss: str
    kind: str
    lane: str
    aud: str
    job_sha256: str
    exp: int
    claimed_at: float
    owner: str
    facts: dict[str, str]
    worktree: str
    result: bytes | None
    sealed: str | None
    published_at: float | None
    state: JobState
    attempt: int


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of a job's history; `at` is wall clock, Unix seconds."""

    attempt: int
    state: JobState
    at: float
    pid: int
    why: str


def read_record(row: sqlite3.Row) -> JobRecord:
    """Return the record in a row of `SELECT_JOBS`."""
    values = dict(row)
    values["facts"] = json.loads(values["facts"])
    values["state"] = JobState(values["state"])
    return JobRecord(**values)


def read_transition(row: sqlite3.Row) -> Transition:
    """Return the transition in a row of its columns."""
    return Transition(row["attempt"], JobState(row["state"]), row["at"], row["pid"], row["why"])
