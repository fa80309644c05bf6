"""One cost at several sizes: the row that says by how much it grows, and whether that is flat.

Taken in processor time of this process and of what it started and waited for, at all sizes in
turns: what the machine does besides disturbs that least.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from tests.bench.harness import Row, Series, shown

# Between a size and one a hundred times larger: below it is a machine's noise, or a logarithm.
FLAT: Final = 2.0


def spent(act: Callable[[], object]) -> float:
    """Return the seconds of processors that `act()` takes, children included that it waits for."""
    before = _used()
    act()
    return _used() - before


def grown(
    work: str,
    acts: Mapping[int, Callable[[], object]],
    *,
    rounds: int,
    times: int = 1,
    of: str,
    is_ours: bool = True,
) -> Row:
    """Return the row of one cost: each of `acts`, by size, is taken `rounds` times in turns and
    does its work `times` times; `of` names what the size counts. Without `is_ours` it stands beside
    a cost of ours, for comparison, and has no goal."""
    taken: dict[int, list[float]] = {size: [] for size in acts}
    for _ in range(rounds):
        for size, act in acts.items():
            taken[size].append(spent(act) / times)
    row = of_sizes(work, {size: Series(tuple(v)) for size, v in taken.items()}, of=of)
    return row if is_ours else replace(row, goal=None)


def of_sizes(work: str, seen: Mapping[int, Series], *, of: str, unit: str = "s") -> Row:
    """Return the row of what was seen at each size: the ratio is the largest over the smallest."""
    small, large = min(seen), max(seen)
    told = ", ".join(f"{shown(seen[n].median, unit)} at {n:,}" for n in sorted(seen))
    ratio = seen[large].median / seen[small].median if seen[small].median else 0.0
    verdict = "flat" if ratio <= FLAT else f"not flat: x {ratio:.1f} for x {large // small} {of}"
    note = f"{told} {of}; {verdict}"
    return Row(work, f"{small:,} {of}", FLAT, seen[large], seen[small], unit, note)


def _used() -> float:
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(x.ru_utime + x.ru_stime for x in map(resource.getrusage, who))
