"""The bench tells what it saw: both sides in turns, medians, a miss as one. No time is asserted."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.bench.__main__ import measure
from tests.bench.harness import NOT_MEASURED, Row, Series, interleave, place, shown
from tests.bench.page import render
from tests.support.source_tree import PROJECT

_TWO = Series((2.0, 9.0, 1.0))
_ONE = Series((1.0,))


def _page(*rows: Row, **more: dict[str, str]) -> str:
    given: dict[str, dict[str, str]] = {"facts": {}, "reasons": {}, "failed": {}, **more}
    return render(rows, (), **given)


def test_both_sides_are_taken_in_turns_and_ours_is_first() -> None:
    taken: list[str] = []

    def side(name: str) -> float:
        taken.append(name)
        return float(len(taken))

    ours, base = interleave(lambda: side("ours"), lambda: side("base"), rounds=3)

    assert taken == ["ours", "base"] * 3
    assert (ours.values, base.values) == ((1.0, 3.0, 5.0), (2.0, 4.0, 6.0))


def test_a_series_has_the_middle_value_and_the_two_outermost() -> None:
    assert _TWO.median == 2.0
    assert _TWO.spread == "1-9"


@pytest.mark.parametrize(
    ("goal", "most", "state"),
    [
        (2.0, None, "met"),
        (1.9, None, "missed"),
        (None, 2.0, "met"),
        (None, 1.9, "missed"),
        (3.0, 1.9, "missed"),
        (None, None, ""),
    ],
)
def test_a_row_is_missed_when_the_ratio_of_medians_or_the_value_is_beyond_its_goal(
    goal: float | None, most: float | None, state: str
) -> None:
    assert Row("work", "base", goal, _TWO, _ONE, most=most).state == state


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    row = Row("spare", "git", 0.1, NOT_MEASURED, NOT_MEASURED, note="not built")
    assert (row.ratio, row.state) == (None, "not measured")
    assert "| spare | git | - | <= 0.1 | not measured | - | - | - | - | 0 |" in _page(row)
    assert "- spare: not built" in _page(row)


def test_the_page_has_ratio_goal_medians_and_spread_of_both_sides() -> None:
    row = Row("work", "base", 1.5, _TWO, _ONE)
    assert "| work | base | 2 | <= 1.5 | missed | 2 s | 1 s - 9 s | 1 s | 1 s - 1 s | 3 |" in _page(
        row
    )


def test_the_page_says_why_a_goal_is_missed_and_nothing_of_one_that_is_met() -> None:
    missed, met = Row("slow", "base", 1.0, _TWO, _ONE), Row("fast", "base", 5.0, _TWO, _ONE)
    page = _page(missed, met, reasons={"slow": "it imports the world.", "fast": "stale."})
    assert "## What misses its goal, and why" in page
    assert "- **slow** (missed): it imports the world." in page
    assert "stale." not in page


def test_a_miss_that_nobody_looked_into_is_named_all_the_same() -> None:
    page = _page(Row("slow", "base", 1.0, _TWO, _ONE))
    assert "- **slow** (missed): no profile was taken yet." in page


def test_a_page_without_a_miss_has_no_section_of_misses() -> None:
    assert "misses its goal" not in _page(Row("fast", "base", 5.0, _TWO, _ONE))


def test_values_are_shown_in_units_that_a_person_reads() -> None:
    assert [shown(value, "s") for value in (2.5, 0.0025, 2.5e-6)] == ["2.5 s", "2.5 ms", "2.5 µs"]
    assert [shown(value, "B") for value in (3 * 2**20, 512.0)] == ["3 MB", "512 B"]
    assert shown(7.0, "commands") == "7 commands"


def test_a_row_that_fails_is_named_and_leaves_the_rows_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = """
        from tests.bench.harness import Row, Series
        def rows(quick):
            yield Row("first", "base", None, Series((1.0,)), Series((2.0,)))
            raise RuntimeError("the second one broke")
    """
    (tmp_path / "bench_that_breaks.py").write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(str(tmp_path))
    rows: list[Row] = []
    failed: dict[str, str] = {}

    measure("bench_that_breaks", True, rows, failed)

    assert [row.work for row in rows] == ["first"]
    assert failed == {"bench_that_breaks": "RuntimeError: the second one broke"}
    assert "first: 0.5" in capsys.readouterr().err


def test_a_place_is_gone_afterwards_also_when_its_row_broke() -> None:
    made: list[Path] = []

    def break_off() -> None:
        with place() as folder:
            made.append(folder)
            (folder / "something").write_text("x")
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        break_off()
    assert not made[0].exists()


def test_a_run_of_the_bench_writes_the_page_with_machine_versions_and_defaults(
    tmp_path: Path,
) -> None:
    page = tmp_path / "performance.md"
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--quick", "--only", "envelope", "--page", str(page)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    text = page.read_text(encoding="utf-8")
    assert "| seal and open a job, 5 KB, Ed25519 | bare HMAC and JSON |" in text
    for fact in ("Python 3.", "git ", "rq ", "redis ", "valkey ", "sandbox auto (chose "):
        assert fact in text, fact
    assert "synchronous=FULL" in text
    assert "evidence on" in text
