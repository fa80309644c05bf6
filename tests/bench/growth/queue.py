"""What one more job costs while many wait in its queue: to send, to be taken, to be shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.bench.growth.growing import of_sizes, spent
from tests.bench.harness import Row, Series, place
from tests.bench.queue_stage import Ours, our_side, suspended, until
from tests.support.broker import running_broker

BOUND_S = 240
_OF = "jobs queued"
_TAKEN = 20  # jobs that the listener takes at each size
_SENT = 10


def rows(quick: bool) -> Iterator[Row]:
    """Yield the sender's, the listener's and the broker's part at three sizes of one queue."""
    sizes = (10, 100, 1_000) if quick else (100, 1_000, 10_000)
    seen: dict[str, dict[int, Series]] = {}
    waiting: list[str] = []
    with (
        place() as folder,
        running_broker(folder / "broker") as broker,
        our_side(folder / "ours", broker) as ours,
    ):
        for size in sizes:
            with suspended(ours.host.pid):
                waiting += [ours.ping() for _ in range(size + _TAKEN - len(waiting))]
                for name, values in _sender_side(ours, waiting).items():
                    seen.setdefault(name, {})[size] = values
            first, waiting = waiting[:_TAKEN], waiting[_TAKEN:]
            began = time.perf_counter()
            until(lambda first=first: ours.stored(first) == _TAKEN, "the oldest are answered")
            took = Series(((time.perf_counter() - began) / _TAKEN,))
            seen.setdefault("queue: a job taken and answered", {})[size] = took
            waiting = waiting[-max(0, size - _TAKEN) :]
    for name, values in seen.items():
        yield of_sizes(name, values, of=_OF)


def _sender_side(ours: Ours, waiting: list[str]) -> dict[str, Series]:
    """Return what one more job and one view of the newest cost the sender, and the broker."""
    acts: dict[str, Callable[[], object]] = {
        "queue: one more job sent": lambda: waiting.append(ours.ping()),
        "queue: `jobs`, 50 rows": lambda: ours.client.jobs(50),
    }
    found: dict[str, Series] = {}
    for name, act in acts.items():
        act()
        times, broker = [], []
        for _ in range(_SENT):
            before = _broker_s(ours.redis)
            times.append(spent(act))
            broker.append(_broker_s(ours.redis) - before)
        found[name] = Series(tuple(times))
        found[f"{name}: the broker's part"] = Series(tuple(broker))
    return found


def _broker_s(redis: Any) -> float:
    """Return the seconds that the broker has spent in commands, those that ask for it aside."""
    stats: dict[str, dict[str, float]] = redis.info("commandstats")
    return sum(item["usec"] for name, item in stats.items() if name != "cmdstat_info") / 1e6
