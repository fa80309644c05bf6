"""The soak: two listeners, many short jobs, copies of them, and kills at random all the while.

Run it with `make soak` (SECONDS and SEED may be set), or as `python -m tests.faults.soak`. It works
in a temporary folder with a Valkey of its own, prints its seed first and its counts last, and ends
with 1 when one of them is wrong. SECONDS sizes the load: 600 means 500 jobs, 100 copies and 36
kills, and each of the three goes down in proportion; the least is 30 jobs, 6 copies and 10 kills.
Kills are placed by progress, not by the clock, so that a slow machine gets as many; ten minutes
are the end in any case.

A kill is SIGKILL of a listener, of a run process, or of Valkey, which then starts again with its
append-only file. It has landed when the process was alive right before and is gone by it; it was
mid-run when an agent of that host (for Valkey: of any) was at work at that moment.
"""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.leaks import ProcessMark
from tests.support.soak_counts import (
    Counts,
    count_jobs,
    count_journals,
    count_kills,
    count_trees,
    count_zombies,
    words,
)
from tests.support.soak_fleet import FULL_SECONDS, Fleet, Killer, Size

LIMIT_S = 480.0  # for the jobs; the counting takes some of the ten minutes, too


def run(seconds: float, seed: int, folder: Path) -> Counts:
    """Run the soak in `folder` and return its counts."""
    size, dice = Size.of(seconds), random.Random(seed)
    began, mark = time.monotonic(), ProcessMark.take()
    fleet = Fleet(folder, size, dice)
    fleet.broker.start()
    counts = Counts()
    counts.add("seed", seed)
    try:
        for host in fleet.hosts:
            host.start()
        killer = Killer(fleet, dice)
        counts.expect("in time", _drive(fleet, killer, began + LIMIT_S), True)
        _settle(fleet)
        count_kills(counts, killer, size)
        count_jobs(counts, fleet)
        count_zombies(counts, fleet)
        for host in fleet.hosts:
            counts.expect(f"exit of {host.name}", host.stop(), 0)
        count_journals(counts, fleet)
        count_trees(counts, fleet)
    finally:
        for host in fleet.hosts:
            if host.process is not None:
                host.kill()
        fleet.broker.stop()
    left = mark.left_behind(folder)
    counts.expect("survivors", [" ".join(words(item))[:120] for item in left], [])
    counts.add("seconds", round(time.monotonic() - began))
    return counts


def _drive(fleet: Fleet, killer: Killer, give_up: float) -> bool:
    """Send in the background, kill here, until every job has its result; say whether in time."""
    stop = threading.Event()
    with ThreadPoolExecutor(max_workers=1) as pool:
        sending = pool.submit(fleet.send_all, stop)
        try:
            while time.monotonic() < give_up:
                ended = fleet.look_for_results()
                if ended == fleet.size.jobs and sending.done():
                    sending.result()
                    return True
                if not (killer.is_due(ended) and killer.strike()):
                    time.sleep(0.02)
        finally:
            stop.set()
    return False


def _settle(fleet: Fleet) -> None:
    """Wait until nothing waits and nothing is taken: the last copies are looked at, too."""
    give_up = time.monotonic() + 60
    with fleet.broker.client() as connection:
        while time.monotonic() < give_up:
            keys = [*connection.keys("rq:queue:*"), *connection.keys("fd:taken:*")]
            if not any(connection.llen(key) for key in keys):
                return
            time.sleep(0.1)


def main() -> int:
    """Run the soak of the command line and print its counts; 1 when one is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=FULL_SECONDS)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = secrets.randbelow(2**32) if given.seed is None else given.seed
    print(f"soak: seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="fleet-soak-") as folder:
        counts = run(given.seconds, seed, Path(folder))
        for name, value in counts.rows:
            print(f"  {name:<36} {value}")
        for line in counts.wrong:
            print(f"soak: WRONG {line}")
        if counts.wrong:
            _print_logs(Path(folder))
    print(f"soak: {'failed' if counts.wrong else 'all of it holds'}, seed {seed}")
    return 1 if counts.wrong else 0


def _print_logs(folder: Path) -> None:
    for log in sorted(folder.glob("*/listener.log")):
        print(f"--- {log.parent.name}", log.read_text(errors="replace")[-3_000:], sep="\n")


if __name__ == "__main__":
    sys.exit(main())
