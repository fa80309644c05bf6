"""From `enqueue` to the start of the job, on a host that is idle.

Both sides are stamped on one machine's wall clock: before the call to `enqueue`, and by whoever
runs the job. RQ's job says its time as its first act. A ping has no time of its start that is finer
than a second, so ours is when the host's journal writes down that it is done: later, never earlier.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from contracts.clock import SystemClock
from tests.bench.harness import Row, interleave, place
from tests.bench.queue_stage import Ours, Stock, both_sides, until
from worker.journal.journal import Journal
from worker.journal.schema import JobState

_REST_S = 0.1  # so that each job finds an idle host


def rows(quick: bool) -> Iterator[Row]:
    """Yield the one row."""
    with place() as folder, both_sides(folder) as (ours, stock):
        for side in (lambda: _ours(ours), lambda: _stock(stock)):
            side()
        a, b = interleave(lambda: _ours(ours), lambda: _stock(stock), rounds=11 if quick else 41)
        yield Row("idle host: enqueue to start of a ping", "stock RQ, fork worker", 1.0, a, b)


def _ours(side: Ours) -> float:
    time.sleep(_REST_S)
    began = time.time()
    job_id = side.ping()
    until(lambda: side.stored([job_id]) == 1, f"ping {job_id} is answered")
    with contextlib.closing(Journal(side.host.journal_file, SystemClock())) as journal:
        ended = [row.at for row in journal.history(job_id) if row.state is JobState.DONE]
    return ended[0] - began


def _stock(side: Stock) -> float:
    time.sleep(_REST_S)
    began = time.time()
    job = side.queue.enqueue("tests.bench.rq_jobs.stamp")
    until(lambda: job.return_value(refresh=True) is not None, "RQ's job is done")
    started = job.return_value()
    assert isinstance(started, float)
    return started - began
