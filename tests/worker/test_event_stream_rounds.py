"""Which logs the stream of events still looks at, with a real journal and no broker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from contracts.clock import SystemClock
from contracts.ids import new_job_id
from worker.broker.event_stream import EventStream
from worker.journal.journal import Journal
from worker.journal.records import JobRecord, NewJob
from worker.journal.schema import JobState


class Asked:
    """A journal that notes which jobs it was asked for."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.ids: list[str] = []

    def find(self, job_id: str) -> JobRecord | None:
        self.ids.append(job_id)
        return self._journal.find(job_id)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "state" / "journal.sqlite3", SystemClock())
    yield journal
    journal.close()


def claimed(journal: Journal) -> str:
    job = NewJob(jti=new_job_id(), iss="alice", aud="host:HOSTA")
    assert journal.claim(job) is None
    return job.jti


def stream_of(journal: Asked, folder: Path) -> EventStream:
    nothing = cast("Any", None)
    return EventStream(
        nothing, cast("Any", journal), nothing, lambda x: folder / x, SystemClock(), nothing
    )


def test_a_job_that_was_declined_here_is_followed_no_more(journal: Journal, tmp_path: Path) -> None:
    open_job, declined = claimed(journal), claimed(journal)
    journal.record(declined, JobState.REFUSED, why="no repository here")
    asked = Asked(journal)
    stream = stream_of(asked, tmp_path)
    for job_id in (open_job, declined):
        stream.follow(job_id)
    assert stream.send()
    assert stream.send()
    assert asked.ids == [open_job, declined, open_job]


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="links are followed here")
def test_a_log_that_cannot_be_read_keeps_no_other_one_waiting(
    journal: Journal, tmp_path: Path
) -> None:
    broken, other = claimed(journal), claimed(journal)
    (tmp_path / broken).mkdir()
    (tmp_path / broken / "events.jsonl").symlink_to(tmp_path)
    asked = Asked(journal)
    stream = stream_of(asked, tmp_path)
    for job_id in (broken, other):
        stream.follow(job_id)
    assert not stream.send()
    assert asked.ids == [broken, other]
