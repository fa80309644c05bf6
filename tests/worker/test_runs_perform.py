"""What is told of a command that ran, when the journal fails after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.clock import SystemClock
from contracts.errors import Unavailable
from contracts.ids import new_job_id
from runagent.process import ProcessSpec, system_runner
from worker.journal.cancels import Cancel
from worker.journal.journal import Journal
from worker.journal.records import NewJob
from worker.runs.runs import Runs


def test_what_ran_is_never_told_as_not_started_for_a_journal_that_fails_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "state" / "journal.sqlite3", SystemClock())
    job_id, ran = new_job_id(), tmp_path / "ran"
    assert journal.claim(NewJob(jti=job_id)) is None

    def of_job(_job_id: str) -> Cancel | None:
        if ran.exists():
            raise Unavailable("the journal cannot be used")
        return None

    monkeypatch.setattr(journal.cancels, "of_job", of_job)
    runs = Runs(system_runner(), {}, journal, other_limits_s=60)
    spec = ProcessSpec(
        argv=("/bin/sh", "-c", "echo x > ran; exit 3"), cwd=str(tmp_path), env={}, timeout_s=60
    )
    assert runs.perform(job_id, spec, role="shell").exit_code == 3
    journal.close()
