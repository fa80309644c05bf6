"""A journal that the first version wrote: opened by this one, everything is kept and goes on.

The file was made by the code of the first schema itself, and is never written anew.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.clock import ManualClock
from worker.journal.journal import Journal
from worker.journal.records import LOCAL_SENDER, NewJob
from worker.journal.schema import MIGRATIONS, JobState

FIXTURE = Path(__file__).parents[1] / "golden" / "journal_of_schema_1.sqlite3"
DELIVERED, UNDELIVERED, RUNNING, DECLINED, LOCAL = (letter * 20 for letter in "abcde")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    copy = tmp_path / "state" / "journal.sqlite3"
    copy.parent.mkdir(mode=0o700)
    shutil.copy(FIXTURE, copy)
    return copy


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    opened = Journal(path, ManualClock())
    yield opened
    opened.close()


def rows_of(path: Path, table: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(path) as database:
        return database.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()


def test_every_row_of_the_first_schema_is_there_after_all_steps(path: Path) -> None:
    tables = ("meta", "jobs", "transitions", "leases")
    before = {table: rows_of(path, table) for table in tables}
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (1,)
    Journal(path, ManualClock()).close()
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    for table, rows in before.items():
        assert rows and [row[: len(rows[0])] for row in rows_of(path, table)] == rows


def test_what_it_held_is_read_as_it_was_meant(journal: Journal) -> None:
    delivered = journal.find(DELIVERED)
    assert delivered is not None
    assert (delivered.state, delivered.sealed, delivered.worktree) == (
        JobState.PUBLISHED,
        "signed-a",
        "/srv/repo-agents/x",
    )
    assert [row.state.value for row in journal.history(DELIVERED)] == [
        *("claimed", "started", "agent_done", "validated", "done", "published"),
    ]
    assert journal.history(RUNNING)[-1].why == "second try"
    assert journal.history(DECLINED)[-1].why == "no codex here"
    local = journal.find(LOCAL)
    assert local is not None and local.iss == LOCAL_SENDER
    assert len(journal.recent(10)) == 5
    assert journal.processes.of(RUNNING) == []
    assert journal.trees.find(RUNNING) is None


def test_an_old_journal_goes_on_where_it_stood(journal: Journal) -> None:
    assert [record.jti for record in journal.unpublished()] == [UNDELIVERED]
    assert journal.mark_published(UNDELIVERED)
    earlier = journal.claim(NewJob(jti=DELIVERED, iss="alice", iat=1_700_000_000))
    assert earlier is not None and earlier.sealed == "signed-a", "it starts nothing twice"
    running = journal.find(RUNNING)
    assert running is not None
    assert not journal.record(RUNNING, JobState.AGENT_DONE, attempt=2), "it is another process's"
    assert journal.adopt(running)
    assert journal.finish(RUNNING, b"{}")


def test_a_process_of_the_first_version_is_found_dead_by_its_machine_and_number(
    path: Path,
) -> None:
    with sqlite3.connect(path) as database:
        from worker.journal.owners import this_place

        database.execute("UPDATE jobs SET owner = ?", (f"{this_place().name}:1:1.00",))
    journal = Journal(path, ManualClock())
    assert [record.jti for record in journal.orphans()] == [RUNNING]
    journal.close()
