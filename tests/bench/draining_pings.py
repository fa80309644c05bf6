"""Many small jobs that wait already: the time until every result is on the broker.

Each worker is frozen while its queue is filled, then let go: its own start is not in the figure,
nor is the sender's part.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from tests.bench.harness import Row, interleave, place
from tests.bench.queue_stage import Ours, Stock, both_sides, suspended, until

BOUND_S = 300


def rows(quick: bool) -> Iterator[Row]:
    """Yield the one row."""
    jobs, rounds = (300, 1) if quick else (1_000, 3)
    with place() as folder, both_sides(folder) as (ours, stock):
        a, b = interleave(lambda: _ours(ours, jobs), lambda: _stock(stock, jobs), rounds=rounds)
        yield Row(
            f"drain of {jobs:,} pings, durable journal",
            "stock RQ, fork worker, no-ops",
            1.0,
            a,
            b,
            note=f"{jobs / a.median:.0f} jobs a second, RQ {jobs / b.median:.0f}",
        )


def _ours(side: Ours, jobs: int) -> float:
    with suspended(side.host.pid):
        waiting = [side.ping() for _ in range(jobs)]
        began = time.perf_counter()
    until(lambda: side.stored(waiting) == jobs, f"{jobs} pings are answered", 0.05)
    return time.perf_counter() - began


def _stock(side: Stock, jobs: int) -> float:
    before = side.finished()
    with suspended(side.worker.pid):
        for _ in range(jobs):
            side.queue.enqueue("tests.bench.rq_jobs.nothing")
        began = time.perf_counter()
    until(lambda: side.finished() - before >= jobs, f"{jobs} no-ops are done", 0.05)
    return time.perf_counter() - began
