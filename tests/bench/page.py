"""The page of what was measured: pure text from rows, facts of the machine and known reasons.

Owns the form of `docs/performance.md`; it measures nothing and reads nothing but its arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.bench.harness import Row, Series, shown

_HEAD = """# Performance

Written by `make bench`; not edited by hand. Each figure is a ratio of this product to what it is
held against, both run in turns on one machine (A B A B), median over median. A ratio below 1 is
faster than the baseline. The spread of each side is the least and the most that was seen: a machine
that does other things besides shows there first. Nothing in the tests asserts a time.
"""
_COLUMNS = "| work | baseline | ratio | goal | | ours | spread | base | spread | n |"
_RULE = "|---|---|---|---|---|---|---|---|---|---|"
_GROWTH = """Each cost at several sizes; the ratio is the largest size over the smallest unless the
line says another. Flat is about 1."""


def render(
    rows: Sequence[Row],
    growth: Sequence[Row],
    *,
    facts: Mapping[str, str],
    reasons: Mapping[str, str],
    failed: Mapping[str, str],
) -> str:
    """Return the page. `facts` are printed in their order; `reasons` are by the row's `work`;
    `failed` names the modules that ended with an error, and which."""
    parts = [_HEAD, "## Where and with what\n", _facts(facts), "## Goals\n", table(rows)]
    if growth:
        parts += ["## Growth and memory\n", f"{_GROWTH}\n", table(growth)]
    every = (*rows, *growth)
    parts += _notes(every)
    told = [_reason(row, reasons) for row in every if row.state != "met" and row.state]
    told += [
        f"- **{row.work}**: {reasons[row.work]}" for row in every if _told_anyway(row, reasons)
    ]
    if told:
        parts += ["## What misses its goal, and why\n", "\n".join(told) + "\n"]
    if failed:
        lines = [f"- `{name}`: {error}" for name, error in failed.items()]
        parts += ["## What could not be measured\n", "\n".join(lines) + "\n"]
    return "\n".join(parts)


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a table of Markdown."""
    return "\n".join((_COLUMNS, _RULE, *(_line(row) for row in rows))) + "\n"


def line(row: Row) -> str:
    """Return one row as one line for a person who waits for it."""
    ratio = "-" if row.ratio is None else f"{row.ratio:.3g}"
    return (
        f"{row.work}: {ratio} (goal {_goal(row) or 'none'}, {row.state or 'no goal'});"
        f" ours {shown(row.ours.median, row.unit)}, base {shown(row.base.median, row.unit)}"
        + (f" ({row.note})" if row.note else "")
    )


def _line(row: Row) -> str:
    ratio = "-" if row.ratio is None else f"{row.ratio:.3g}"
    cells = (
        row.work,
        row.baseline,
        ratio,
        _goal(row),
        row.state,
        shown(row.ours.median, row.unit),
        _spread(row.ours, row.unit),
        shown(row.base.median, row.unit),
        _spread(row.base, row.unit),
        str(len(row.ours.values)),
    )
    return "| " + " | ".join(cells) + " |"


def _goal(row: Row) -> str:
    goals = []
    if row.goal is not None:
        goals.append(f"<= {row.goal:.3g}")
    if row.most is not None:
        goals.append(f"<= {shown(row.most, row.unit)}")
    return ", ".join(goals)


def _spread(series: Series, unit: str) -> str:
    if not series.values:
        return "-"
    return f"{shown(min(series.values), unit)} - {shown(max(series.values), unit)}"


def _facts(facts: Mapping[str, str]) -> str:
    return "\n".join(f"- {name}: {text}" for name, text in facts.items()) + "\n"


def _notes(rows: Sequence[Row]) -> list[str]:
    noted = [f"- {row.work}: {row.note}" for row in rows if row.note]
    return ["### Notes\n", "\n".join(noted) + "\n"] if noted else []


def _told_anyway(row: Row, reasons: Mapping[str, str]) -> bool:
    """Say whether a row without a goal has something to say, as a cost that does grow."""
    return not row.state and row.work in reasons


def _reason(row: Row, reasons: Mapping[str, str]) -> str:
    return f"- **{row.work}** ({row.state}): {reasons.get(row.work, 'no profile was taken yet.')}"
