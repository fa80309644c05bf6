"""Every bench row, its table, and the page: what `make bench` runs.

    python -m tests.bench [--quick] [--only NAME] [--json] [--page FILE] [--folder DIR]

A whole run writes docs/performance.md; `--quick` (smaller sizes) and `--only` print the table
alone, unless `--page` names a file. Progress goes to stderr, a line as each row ends. Ends with 0
when every row was measured, with 1 when one was not; a missed goal is no failure.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType

from tests.bench.harness import Row, place
from tests.bench.machine import machine_facts
from tests.bench.page import line, render, table

_HERE = Path(__file__).resolve().parent
_PAGE = _HERE.parents[1] / "docs" / "performance.md"
_REASONS = _HERE / "reasons.toml"
_BOUND_S = 240  # of one module, unless it says BOUND_S itself
# In this order; whatever else has `rows` comes behind, by name.
_FIRST = ("whole_run", "enqueue", "start_latency", "draining_pings", "draining_output", "cli_start")


def main() -> int:
    """Run; return the exit code."""
    options = _options()
    tempfile.tempdir = str(options.folder.resolve()) if options.folder else tempfile.gettempdir()
    signal.signal(signal.SIGTERM, _stop)
    goals: list[Row] = []
    growth: list[Row] = []
    failed: dict[str, str] = {}
    began = time.monotonic()
    with place() as home:
        os.environ["HOME"] = str(home)  # nobody's git settings, nobody's fleet
        facts = machine_facts(quick=options.quick)
        for name in _names(options.only):
            rows = growth if name.startswith("growth.") else goals
            measure(f"tests.bench.{name}", options.quick, rows, failed)
    facts["took"] = f"{time.monotonic() - began:.0f} s for all of it"
    page = options.page or (None if options.quick or options.only else _PAGE)
    if page:
        reasons = tomllib.loads(_REASONS.read_text(encoding="utf-8"))["reasons"]
        text = render(goals, growth, facts=facts, reasons=reasons, failed=failed)
        page.write_text(text, encoding="utf-8")
        _say(f"written: {page}")
    if options.json:
        print(json.dumps({"facts": facts, "rows": [_document(r) for r in (*goals, *growth)]}))
    elif not page:
        print("\n".join(f"{name}: {text}" for name, text in facts.items()), end="\n\n")
        print(table((*goals, *growth)))
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer rounds")
    parser.add_argument("--only", default="", help="modules whose name has this in it")
    parser.add_argument("--json", action="store_true", help="all values on stdout")
    parser.add_argument("--page", type=Path, default=None, help="write the page there")
    parser.add_argument("--folder", type=Path, default=None, help="on the disk to be measured")
    return parser.parse_args()


def _names(only: str) -> list[str]:
    """Return the modules that have rows, below this folder, in the order of the page."""
    files = sorted(_HERE.glob("*.py")) + sorted((_HERE / "growth").glob("*.py"))
    found = [
        ".".join(file.relative_to(_HERE).with_suffix("").parts)
        for file in files
        if "\ndef rows(" in file.read_text(encoding="utf-8")
    ]
    order = {name: number for number, name in enumerate(_FIRST)}
    found.sort(key=lambda name: (name.startswith("growth."), order.get(name, len(order)), name))
    return [name for name in found if only in name]


def measure(name: str, quick: bool, rows: list[Row], failed: dict[str, str]) -> None:
    """Add the rows of the module `name`, or its error. What it started, it ends itself."""
    began = time.monotonic()
    try:
        module = importlib.import_module(name)
        with _bounded(module):
            for row in module.rows(quick):
                rows.append(row)
                _say(line(row))
    except Exception as error:  # noqa: BLE001 - one row that fails leaves the others theirs
        traceback.print_exc()
        failed[name] = f"{type(error).__name__}: {error}".partition("\n")[0]
        _say(f"{name}: {failed[name]}")
    _say(f"    {name.removeprefix('tests.bench.')}: {time.monotonic() - began:.0f} s")


@contextmanager
def _bounded(module: ModuleType) -> Iterator[None]:
    seconds = int(getattr(module, "BOUND_S", _BOUND_S))

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    previous = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def _document(row: Row) -> dict[str, object]:
    return dataclasses.asdict(row) | {
        "ratio": row.ratio,
        "state": row.state,
        "oursMedian": row.ours.median if row.ours.values else None,
        "baseMedian": row.base.median if row.base.values else None,
    }


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
