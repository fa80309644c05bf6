"""The tables of the journal, the states of a job, and the steps from one schema to the next.

A later version adds a step to `MIGRATIONS` and changes no older one; the number of steps that a
file has been through stands in its `user_version`. A file from a newer version is refused, never
guessed at.
"""

from __future__ import annotations

import sqlite3
from enum import StrEnum
from typing import Final

from contracts.errors import CouldNotCheck


class JobState(StrEnum):
    """What a host has done with a job, in order. The last two are ends of another kind:
    `interrupted` lost its process, `refused` was given back or declined before a start."""

    RECEIVED = "received"
    CLAIMED = "claimed"
    STARTED = "started"
    AGENT_DONE = "agent_done"
    VALIDATED = "validated"
    DONE = "done"
    PUBLISHED = "published"
    INTERRUPTED = "interrupted"
    REFUSED = "refused"


MIGRATIONS: Final[tuple[str, ...]] = (
    """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
    CREATE TABLE jobs (
        jti TEXT PRIMARY KEY,
        iss TEXT NOT NULL,
        kind TEXT NOT NULL,
        lane TEXT NOT NULL,
        aud TEXT NOT NULL,
        job_sha256 TEXT NOT NULL,
        exp INTEGER NOT NULL,
        claimed_at REAL NOT NULL,
        owner TEXT NOT NULL,
        facts TEXT NOT NULL,
        worktree TEXT NOT NULL DEFAULT '',
        result BLOB,
        sealed TEXT,
        published_at REAL
    ) STRICT;
    CREATE TABLE transitions (
        id INTEGER PRIMARY KEY,
        job TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        state TEXT NOT NULL,
        at REAL NOT NULL,
        pid INTEGER NOT NULL,
        why TEXT NOT NULL
    ) STRICT;
    CREATE INDEX transitions_by_job ON transitions (job, id);
    CREATE INDEX jobs_without_end ON jobs (jti) WHERE result IS NULL;
    CREATE INDEX jobs_unpublished ON jobs (jti) WHERE published_at IS NULL;
    CREATE TABLE leases (
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        owner TEXT NOT NULL,
        until REAL NOT NULL,
        PRIMARY KEY (kind, key)
    ) STRICT;
    """,
    """
    CREATE TABLE trees (
        job TEXT PRIMARY KEY,
        path TEXT NOT NULL,
        repo TEXT NOT NULL,
        common_dir TEXT NOT NULL,
        branch TEXT NOT NULL,
        base_commit TEXT NOT NULL,
        ticket TEXT NOT NULL,
        made_at REAL NOT NULL,
        admin_dir TEXT NOT NULL DEFAULT '',
        identity TEXT NOT NULL DEFAULT '',
        kept TEXT NOT NULL DEFAULT '',
        head_commit TEXT NOT NULL DEFAULT '',
        aside TEXT NOT NULL DEFAULT '',
        removed_why TEXT NOT NULL DEFAULT '',
        removed_at REAL,
        gone_at REAL
    ) STRICT;
    CREATE TABLE processes (
        job TEXT NOT NULL,
        pid INTEGER NOT NULL,
        started REAL NOT NULL,
        role TEXT NOT NULL,
        marker TEXT NOT NULL,
        at REAL NOT NULL,
        ended_at REAL,
        PRIMARY KEY (marker, pid)
    ) STRICT;
    CREATE INDEX processes_by_job ON processes (job);
    CREATE TABLE repositories (
        common_dir TEXT PRIMARY KEY,
        repo TEXT NOT NULL,
        quarantined_at REAL,
        job TEXT NOT NULL DEFAULT '',
        why TEXT NOT NULL DEFAULT '[]',
        trusted_at REAL,
        trusted TEXT NOT NULL DEFAULT '[]'
    ) STRICT;
    """,
    """
    CREATE TABLE cancels (
        job TEXT NOT NULL,
        iss TEXT NOT NULL,
        job_sha256 TEXT NOT NULL,
        iat INTEGER NOT NULL,
        why TEXT NOT NULL,
        taken_at REAL NOT NULL,
        PRIMARY KEY (job, iss, job_sha256)
    ) STRICT;
    CREATE TABLE asked (
        iss TEXT NOT NULL,
        nonce TEXT NOT NULL,
        until INTEGER NOT NULL,
        PRIMARY KEY (iss, nonce)
    ) STRICT;
    """,
    # What is asked again and again, so that no answer costs more the more jobs are remembered.
    # SQLite uses a partial index only where a query has its condition word for word: see owed.py.
    """
    DROP INDEX jobs_unpublished;
    DROP INDEX jobs_without_end;
    CREATE INDEX jobs_open ON jobs (claimed_at) WHERE result IS NULL;
    CREATE INDEX jobs_by_claim ON jobs (claimed_at);
    CREATE INDEX jobs_owed ON jobs (claimed_at, jti) WHERE published_at IS NULL
        AND result NOT NULL AND iss != 'local run'
        AND coalesce(json_extract(facts, '$.door'), '') != 'http';
    CREATE INDEX jobs_delivered ON jobs (published_at) WHERE published_at NOT NULL;
    CREATE INDEX jobs_kept_here ON jobs (claimed_at) WHERE published_at IS NULL
        AND result NOT NULL;
    CREATE INDEX trees_standing ON trees (made_at, job) WHERE gone_at IS NULL OR aside != '';
    CREATE INDEX cancels_by_sender ON cancels (iss);
    CREATE INDEX cancels_by_time ON cancels (iat);
    CREATE INDEX asked_by_time ON asked (until)
    """,
    """
    CREATE TABLE spares (
        name TEXT PRIMARY KEY,
        common_dir TEXT NOT NULL,
        repo TEXT NOT NULL,
        repository TEXT NOT NULL DEFAULT '',
        base_commit TEXT NOT NULL,
        manner TEXT NOT NULL DEFAULT '',
        proof TEXT NOT NULL DEFAULT '',
        index_sha256 TEXT NOT NULL DEFAULT '',
        bytes INTEGER NOT NULL DEFAULT 0,
        made_at REAL NOT NULL,
        owner TEXT NOT NULL,
        job TEXT NOT NULL DEFAULT ''
    ) STRICT;
    """,
)


def migrate(connection: sqlite3.Connection, migrations: tuple[str, ...] = MIGRATIONS) -> bool:
    """Bring the file behind `connection` to the newest schema; say whether it was empty before.

    Each step and its number are committed together, so a crash leaves a whole older schema.
    Raises CouldNotCheck for a file that a newer version wrote.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > len(migrations):
            raise CouldNotCheck(
                f"the journal has schema {version} and this version knows {len(migrations)}",
                remedy="run the newer fleet-dispatch that wrote it",
            )
        for number, step in enumerate(migrations[version:], start=version + 1):
            for statement in step.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return version == 0
