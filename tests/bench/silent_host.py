"""How long a host that was killed is taken for alive, beside what RQ's defaults take.

RQ's side is a figure that was measured once and is not run again here: a worker and its fork killed
with its defaults were noticed after 808 s.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from contracts.limits import HEARTBEAT_EVERY_S
from dispatch.hosts import HOST_LOST, LIVE
from tests.bench.harness import Row, Series, place
from tests.bench.queue_stage import Ours, our_side, until
from tests.support.broker import running_broker

_RQ_DEFAULTS_S = 808.0


def rows(quick: bool) -> Iterator[Row]:
    """Yield the one row."""
    taken = tuple(_notice() for _ in range(1 if quick else 3))
    yield Row(
        "notice of a host that was killed",
        "RQ's defaults, worker and fork killed (documented, not rerun)",
        None,
        Series(taken),
        Series((_RQ_DEFAULTS_S,)),
        most=15.0,
        note="the base is a documented figure; ours is `hosts` asked every 0.1 s",
    )


def _notice() -> float:
    with (
        place() as folder,
        running_broker(folder / "broker") as broker,
        our_side(folder / "ours", broker) as ours,
    ):
        until(lambda: _state(ours) == LIVE, "the host is seen")
        time.sleep(random.uniform(0.0, HEARTBEAT_EVERY_S))  # at any moment between two heartbeats
        ours.host.kill()
        began = time.perf_counter()
        until(lambda: _state(ours) == HOST_LOST, "the host is seen as lost", 0.1)
        return time.perf_counter() - began


def _state(ours: Ours) -> str:
    return next(view.state for view in ours.client.hosts() if view.name == ours.host.name)
