"""What the evidence of an untouched tree of 20,000 files costs, beside a cold `git status`.

Prints the times and the ratio; it asserts nothing, because a time is no property of the code alone.
"Cold" is git's index without what it knows of the files, as after a copy of the tree: git then
reads every file once, which is also what one read of the changed bytes costs here at most. With the
right to drop the page cache (`--drop-caches`, root) the disk is cold too.

    .venv/bin/python tests/bench/evidence_cost.py [--files 20000] [--changed 20] [--drop-caches]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

from runagent.evidence.evidence import EvidenceCollector  # noqa: E402 - the project's own folder comes first
from runagent.process import system_runner  # noqa: E402 - as above
from tests.support.repositories import git, make_repository, prepare  # noqa: E402 - as above


def main() -> None:
    """Make the tree, take both times, print the ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--changed", type=int, default=20)
    parser.add_argument("--drop-caches", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fd-bench-") as place:
        os.environ["HOME"] = place
        measure(Path(place), options.files, options.changed, drop=options.drop_caches)


def measure(place: Path, files: int, changed: int, *, drop: bool) -> None:
    """Print what the looks at a tree of `files` files cost, untouched and with `changed` edits."""
    content = {f"d{n // 200}/e{n // 20 % 10}/f{n}.txt": f"line {n}\n" * 60 for n in range(files)}
    repo = make_repository(place / "repo", content)
    for edits in (0, changed):
        worktree = prepare(repo, place / f"state{edits}")
        tree = Path(worktree.path)
        collector = EvidenceCollector(worktree, runner=system_runner())
        looks = {}
        _forget(drop)
        looks["S0"] = _seconds(collector.start)
        for name in list(content)[:edits]:
            (tree / name).write_text("changed\n" * 60)
        _forget(drop)
        looks["S1"] = _seconds(collector.after_agent)
        _forget(drop)
        looks["S2"] = _seconds(collector.after_validation)
        git(tree, "read-tree", "HEAD")  # an index that knows nothing of the files
        _forget(drop)
        cold = _seconds(lambda: git(tree, "status", "--porcelain"))  # noqa: B023 - called at once
        _forget(drop)
        warm = _seconds(lambda: git(tree, "status", "--porcelain"))  # noqa: B023 - as above
        for place_in, unit in enumerate(("s", "s of processors")):
            costs = {name: pair[place_in] for name, pair in looks.items()}
            total, base = sum(costs.values()), cold[place_in]
            shown = ", ".join(f"{name} {seconds:.3f}" for name, seconds in costs.items())
            print(f"{files} files, {edits} changed: {shown}, together {total:.3f} {unit}")
            print(f"    git status: cold {base:.3f}, once more {warm[place_in]:.3f} {unit}")
            print(f"    ratio to the cold one: {total / base:.2f}; S1 {costs['S1'] / base:.2f}")


def _forget(drop: bool) -> None:
    """Let the system forget what it holds of the disk, where that was asked for and we may."""
    if not drop:
        return
    os.sync()
    with contextlib.suppress(OSError), open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("3\n")


def _seconds(act: object) -> tuple[float, float]:
    """Return what `act` takes: seconds on the wall, and seconds of processors, children included.
    On a machine that does other things besides, only the second says something of us."""
    assert callable(act)
    began, used = time.perf_counter(), sum(os.times()[:4])
    act()
    return time.perf_counter() - began, sum(os.times()[:4]) - used


if __name__ == "__main__":
    main()
