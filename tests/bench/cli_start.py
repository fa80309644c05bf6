"""The start of the command, beside an interpreter that imports what it cannot do without."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench.harness import Row, interleave, place, run, timed
from tests.support.broker import running_broker
from tests.support.fleet import PROGRAM, Machine


def rows(quick: bool) -> Iterator[Row]:
    """Yield `--help` beside click, and `jobs --json` beside redis."""
    rounds = 9 if quick else 21
    with place() as folder, running_broker(folder / "broker") as broker:
        machine = Machine(folder, folder / "bin", broker.url, "DESK")
        machine.programs.mkdir()
        machine.succeed("init")
        yield _row(machine, ("--help",), "click", 1.5, rounds)
        yield _row(machine, ("jobs", "--json"), "redis", 2.0, rounds)


def _row(machine: Machine, words: Sequence[str], package: str, goal: float, rounds: int) -> Row:
    verb = [PROGRAM, *words]
    bare = [sys.executable, "-P", "-c", f"import {package}"]
    for argv in (verb, bare) * 2:
        _run(machine, argv)
    ours, base = interleave(
        lambda: timed(lambda: _run(machine, verb)),
        lambda: timed(lambda: _run(machine, bare)),
        rounds=rounds,
    )
    work = f"`{Path(PROGRAM).name} {' '.join(words)}`"
    return Row(work, f'`python -c "import {package}"`', goal, ours, base)


def _run(machine: Machine, argv: Sequence[str]) -> None:
    run(argv, env=machine.environment, cwd=machine.home)
