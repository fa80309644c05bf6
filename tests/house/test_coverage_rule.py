"""The rule of full coverage, held against reports with and without gaps."""

from __future__ import annotations

import pytest

from tests.house.full_coverage import read_gaps


def _report(name: str, lines: list[int], branches: list[list[int]]) -> dict[str, object]:
    return {"files": {name: {"missing_lines": lines, "missing_branches": branches}}}


@pytest.mark.parametrize("name", ["contracts/ids.py", "validation/verdict.py", "worker/sealed.py"])
def test_a_missing_line_or_branch_in_a_deciding_file_is_a_gap(name: str) -> None:
    assert read_gaps(_report(name, [3], []))
    assert read_gaps(_report(name, [], [[3, 5]]))


def test_a_covered_file_and_a_file_without_that_duty_are_no_gap() -> None:
    assert not read_gaps(_report("contracts/ids.py", [], []))
    assert not read_gaps(_report("worker/listener.py", [3], []))
