"""The table and the pins of `make e2e` hold together; nothing is installed and nothing is run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from contracts.run_agent import AgentName, Status
from tests.real import installation
from tests.real.cases import prompt_text, read_scenarios
from tests.real.checks import differences
from tests.real.report import Row, count, table
from tests.real.settings import AGENTS, PRESETS
from tests.real.stage import Outcome
from tests.support.model.script import scenarios

_READ = read_scenarios()


def test_every_row_is_about_a_known_scenario_preset_status_and_every_agent() -> None:
    known = scenarios("/beyond")
    for one in _READ:
        assert one.model in known, one.name
        assert one.preset in PRESETS, one.name
        assert {case.agent for case in one.cases} == set(AgentName) == set(AGENTS)
        assert {case.status for case in one.cases} <= {*Status, "refused"}, one.name
    assert len({one.name for one in _READ}) == len(_READ)


def test_pins_are_exact_and_every_package_has_its_digest_and_no_place() -> None:
    assert set(installation.pinned()) == set(AGENTS)
    assert all(version[0].isdigit() for version in installation.pinned().values())
    lock = json.loads((installation.PINS / "package-lock.json").read_text())
    for name, package in lock["packages"].items():
        assert "resolved" not in package, name
        assert not name or package.get("integrity", "sha512-").startswith("sha512-"), name


@pytest.mark.parametrize(("name", "size"), [("largest", 28_000), ("over", 28_001)])
def test_prompts_are_exactly_as_long_as_they_say(name: str, size: int) -> None:
    assert len(prompt_text(name).encode()) == size


def _result(**changes: Any) -> dict[str, Any]:
    honest = {
        "status": "completed",
        "summary": "Wrote hello.txt.",
        "needs_human_review": False,
        "risks": [],
        "changed_files": ["hello.txt"],
        "tests_attempted": ["test -s hello.txt => exit 0"],
    }
    return honest | changes


@pytest.mark.parametrize(
    "change",
    [
        {"status": "failed"},
        {"needs_human_review": True},
        {"changed_files": []},
        {"tests_attempted": ["test -s hello.txt => exit 1"]},
        {"reason": {"code": "crashed"}},
    ],
)
def test_whatever_differs_from_the_table_is_told(change: dict[str, Any]) -> None:
    scenario = next(one for one in _READ if one.name == "writes a file")
    case = scenario.cases[0]
    assert differences(scenario, case, Outcome(1.0, _result())) == []
    assert differences(scenario, case, Outcome(1.0, _result(**change)))
    assert differences(scenario, case, Outcome(1.0, None))
    assert differences(scenario, case, Outcome(case.at_most + 1, _result()))


def test_a_cli_with_one_wrong_row_is_not_counted() -> None:
    scenario = next(one for one in _READ if one.name == "writes a file")
    rows = [Row(scenario, case, Outcome(1.0, _result()), ()) for case in scenario.cases]
    assert count(rows) == 4
    rows[1] = Row(scenario, scenario.cases[1], Outcome(1.0, _result()), ("it differs",))
    assert count(rows) == 3
    assert "WRONG" in table(rows)
