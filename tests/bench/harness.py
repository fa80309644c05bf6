"""What every bench row is made of: two sides taken in turns, their medians, and the ratio.

Owns the shapes and the turns. It never asserts a time: a time is no property of the code alone, and
a ratio of two sides that were taken in turns (A B A B) is what a busy machine disturbs least.
"""

from __future__ import annotations

import math
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_BYTES = ((2**30, "GB"), (2**20, "MB"), (2**10, "KB"), (1, "B"))


@dataclass(frozen=True, slots=True)
class Series:
    """What was seen of one side: seconds, or bytes, in the order in which they were taken. An empty
    one stands for a side that was not measured."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """Return the middle of the values; not a number where there are none."""
        return statistics.median(self.values) if self.values else float("nan")

    @property
    def spread(self) -> str:
        """Return the least and the most, in plain numbers."""
        return f"{min(self.values):.6g}-{max(self.values):.6g}" if self.values else ""


NOT_MEASURED = Series(())


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    `goal` is the most that ours may be of the baseline, `most` the most that ours may be in `unit`
    ("s" or "B"); None where there is no such goal. `note` says what else a reader has to know.
    """

    work: str
    baseline: str
    goal: float | None
    ours: Series
    base: Series
    unit: str = "s"
    note: str = ""
    most: float | None = None

    @property
    def ratio(self) -> float | None:
        """Return the median of ours over that of the baseline; None where one was not measured."""
        if not self.ours.values or not self.base.values or not self.base.median:
            return None
        return self.ours.median / self.base.median

    @property
    def state(self) -> str:
        """Return `met` or `missed`, `not measured` without a figure, "" without a goal."""
        if self.goal is None and self.most is None:
            return ""
        if not self.ours.values or (self.goal is not None and self.ratio is None):
            return "not measured"
        over = self.goal is not None and (self.ratio or 0.0) > self.goal
        beyond = self.most is not None and self.ours.median > self.most
        return "missed" if over or beyond else "met"


def timed(act: Callable[[], object]) -> float:
    """Return the seconds on the wall that `act()` takes."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def interleave(
    ours: Callable[[], float], base: Callable[[], float], *, rounds: int
) -> tuple[Series, Series]:
    """Return what `rounds` calls of each side returned, taken in turns: ours, base, ours, base."""
    taken = in_turns(ours, base, rounds=rounds)
    return taken[0], taken[1]


def in_turns(*sides: Callable[[], float], rounds: int) -> tuple[Series, ...]:
    """Return what `rounds` calls of each of `sides` returned: A B C A B C, a series for each."""
    taken: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for act, values in zip(sides, taken, strict=True):
            values.append(act())
    return tuple(Series(tuple(values)) for values in taken)


def run(argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path) -> None:
    """Run a program to its end; it must exit 0. Its output goes nowhere.

    Without a timeout of its own: a wait with one polls in steps of up to 50 ms, which a bench would
    take for the program's. The runner's bound for the module ends a wait that lasts for ever.
    """
    nowhere = subprocess.DEVNULL
    subprocess.run(
        argv, env=env, cwd=cwd, stdin=nowhere, stdout=nowhere, stderr=nowhere, check=True
    )


@contextmanager
def place() -> Iterator[Path]:
    """Yield a new folder for one row, removed afterwards with all that is in it."""
    folder = Path(tempfile.mkdtemp(prefix="fd-bench-")).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def shown(value: float, unit: str) -> str:
    """Return `value` as a person reads it: `unit` is "s", "B", or anything that stands behind."""
    if math.isnan(value):  # it was not measured
        return "-"
    steps = _UNITS if unit == "s" else _BYTES if unit == "B" else ((1.0, unit),)
    size, name = next((step for step in steps if abs(value) >= step[0]), steps[-1])
    return f"{value / size:.3g} {name}".rstrip()
