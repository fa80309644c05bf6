"""What a host's journal costs with many jobs in it."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

from contracts.clock import SystemClock
from tests.bench.growth.filled_journal import age_journal, fill_journal, job_id_of
from tests.bench.growth.growing import grown, of_sizes, spent
from tests.bench.harness import Row, Series, place
from worker.journal.journal import Journal
from worker.journal.records import NewJob
from worker.journal.schema import JobState

BOUND_S = 180
_OF = "jobs in the journal"
_NEW = itertools.count(10**9)


def rows(quick: bool) -> Iterator[Row]:
    """Yield each question and note of a journal at three sizes, its opening and its tidying."""
    sizes = (100, 1_000, 10_000) if quick else (1_000, 10_000, 100_000)
    rounds = 5
    with place() as folder, ExitStack() as stack:
        files = {size: folder / str(size) / "journal.sqlite3" for size in sizes}
        journals: dict[int, Journal] = {}
        for size, file in files.items():
            fill_journal(file, size)
            journals[size] = stack.enter_context(closing(Journal(file, SystemClock())))

        def row(work: str, act: Callable[[Journal], object], times: int = 20) -> Row:
            acts = {size: _repeat(act, journal, times) for size, journal in journals.items()}
            return grown(work, acts, rounds=rounds, times=times, of=_OF)

        yield row("journal: a whole job (claim, start, finish, delivered)", _whole_job)
        yield row("journal: `jobs --local`, 50 rows", lambda j: j.recent(50), 5)
        yield row("journal: `job show`", _show)
        yield row("journal: what is to be delivered", lambda j: list(j.unpublished()))
        yield row("journal: what a start has to recover", lambda j: j.orphans("HOSTA"), 5)
        yield row("journal: cancels looked for", lambda j: j.cancels.concerned(j.owner))
        yield row("journal: tidying when nothing is old", lambda j: j.prune(), 5)
        opening = {size: _opener(file) for size, file in files.items()}
        yield grown("journal: opened", opening, rounds=rounds, of=_OF)
        stack.close()
        yield _forgetting(files)
        shutil.rmtree(folder, ignore_errors=True)


def _repeat(act: Callable[[Journal], object], journal: Journal, times: int) -> Callable[[], None]:
    def repeated() -> None:
        for _ in range(times):
            act(journal)

    return repeated


def _whole_job(journal: Journal) -> None:
    job = job_id_of(next(_NEW))
    journal.claim(NewJob(jti=job, iss="alice", iat=int(SystemClock().wall()), exp=2**31))
    journal.record(job, JobState.STARTED, attempt=1)
    journal.finish(job, b'{"status": "completed"}', sealed="sealed")
    journal.mark_published(job)


def _show(journal: Journal) -> None:
    job = job_id_of(50)
    journal.find(job)
    journal.history(job)
    journal.processes.of(job)
    journal.trees.find(job)


def _opener(file: Path) -> Callable[[], None]:
    return lambda: Journal(file, SystemClock()).close()


def _forgetting(files: dict[int, Path]) -> Row:
    """Forget all of it: what one job costs, since all are due at once."""
    seen: dict[int, Series] = {}
    for size, file in files.items():
        age_journal(file, 30)
        with closing(Journal(file, SystemClock())) as journal:
            seen[size] = Series((spent(journal.prune) / size,))
    return of_sizes("journal: one old job forgotten", seen, of=_OF)
