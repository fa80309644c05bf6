"""What a program prints, drained by the process seam below its warden, beside `cat >/dev/null`.

The same program prints the same bytes on both sides: half to each of its two streams, and for `cat`
both into the one pipe that a shell gives it.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.harness import Row, Series, interleave, place, run, timed
from tests.support.source_tree import PROJECT

_PRINT = """
import os, sys
line = b"a line as a compiler or a test prints it, of some length and no meaning at all\\n"
block = (line * 16000)[:1048576]
for number in range(int(sys.argv[1])):
    left = memoryview(block)
    while left:
        left = left[os.write(1 + number % 2, left):]
"""


def rows(quick: bool) -> Iterator[Row]:
    """Yield the time, and the largest resident memory of who drained."""
    blocks, rounds = (256, 3) if quick else (2_048, 5)
    peaks: list[float] = []
    with place() as folder:
        little = [_drained(folder, 1)["peak"] for _ in range(rounds)]

        def ours() -> float:
            drained = _drained(folder, blocks)
            assert drained["bytes"] == blocks * 2**20, drained
            peaks.append(drained["peak"])
            return float(drained["seconds"])

        a, b = interleave(ours, lambda: timed(lambda: _into_cat(folder, blocks)), rounds=rounds)
    size = f"{blocks / 1024:g} GB"
    yield Row(f"draining {size} of output", "`cat >/dev/null`", 1.2, a, b)
    yield Row(
        f"resident while draining {size}",
        "the same with 1 MB",
        None,
        Series(tuple(peaks)),
        Series(tuple(little)),
        unit="B",
        most=60 * 2**20,
    )


def _program(blocks: int) -> tuple[str, ...]:
    return (sys.executable, "-I", "-c", _PRINT, str(blocks))


def _drained(folder: Path, blocks: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.drain_child", *_program(blocks)],
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(PROJECT)},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
    )
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _into_cat(folder: Path, blocks: int) -> None:
    run(("sh", "-c", f"{shlex.join(_program(blocks))} 2>&1 | cat >/dev/null"), cwd=folder)
