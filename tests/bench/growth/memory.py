"""What stays in memory: of a listener after many jobs, of a run that changed very many files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.bench.growth.growing import of_sizes
from tests.bench.harness import Row, Series, place
from tests.bench.queue_stage import our_side, until
from tests.support.broker import running_broker
from tests.support.source_tree import PROJECT

BOUND_S = 300
# In a process of its own, so that its peak is that of the looks alone.
_LOOKS = """
import json, resource, sys
from pathlib import Path
from runagent.evidence.evidence import EvidenceCollector
from runagent.process import system_runner
from tests.support.repositories import make_repository, prepare

place, count = Path(sys.argv[1]), int(sys.argv[2])
worktree = prepare(make_repository(place / "repo"), place / "state", deadline_s=200)
collector = EvidenceCollector(worktree, runner=system_runner())
collector.start()
for number in range(count):
    folder = Path(worktree.path) / f"d{number // 500}"
    folder.mkdir(exist_ok=True)
    (folder / f"f{number}.txt").write_text(f"{number}\\n")
who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
used = lambda: sum(x.ru_utime + x.ru_stime for x in map(resource.getrusage, who))
began = used()
collector.after_agent()
evidence = collector.after_validation()
status = Path("/proc/self/status").read_text()
peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
print(json.dumps({"s": used() - began, "peak": peak, "told": len(evidence.changed)}))
"""


def rows(quick: bool) -> Iterator[Row]:
    """Yield the listener's resident size, and peak and time of a result with many files."""
    yield _listener(5 if quick else 50, 50 if quick else 500)
    peaks: dict[int, Series] = {}
    costs: dict[int, Series] = {}
    for size in (100, 1_000, 10_000) if quick else (1_000, 10_000, 100_000):
        with place() as folder:
            found = _looked_at(folder, size)
        peaks[size], costs[size] = Series((found["peak"],)), Series((found["s"] / size,))
    of = "changed files"
    yield of_sizes("memory: peak of a run's process", peaks, of=of, unit="B")
    yield of_sizes("result: two looks, per changed file", costs, of=of)


def _listener(few: int, many: int) -> Row:
    sizes: dict[int, Series] = {}
    with (
        place() as folder,
        running_broker(folder / "broker") as broker,
        our_side(folder / "ours", broker) as ours,
    ):
        done: list[str] = []
        for count in (few, many):
            done.extend([ours.ping() for _ in range(count - len(done))])
            until(lambda: ours.stored(done) == len(done), "the pings are answered")
            sizes[count] = Series((float(psutil.Process(ours.host.pid).memory_info().rss),))
    return of_sizes("memory: the listener's resident size", sizes, of="jobs done", unit="B")


def _looked_at(folder: Path, count: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", _LOOKS, str(folder), str(count)],
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(PROJECT)},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    assert found["told"] == count, found
    return found
