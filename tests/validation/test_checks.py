"""Which commands judge the work, and how their outcome is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.run_agent import CommandState, ValidationSource
from validation.checks import (
    DETECTOR_NAMES,
    CheckOutcome,
    Plan,
    PlannedCommand,
    attempted_lines,
    command_state,
    plan_checks,
    validation_of,
)

AUTO, NONE, OVERRIDE = (
    ValidationSource.AUTODETECTED,
    ValidationSource.NONE,
    ValidationSource.OVERRIDE,
)


def _texts(plan: Plan) -> list[str]:
    return [command.text for command in plan.commands]


def test_the_senders_command_is_the_only_one_and_goes_to_a_shell() -> None:
    plan = plan_checks("pytest -q", ["App.sln", "package.json"], ["npm"])
    assert plan.source is OVERRIDE
    assert _texts(plan) == ["pytest -q"]
    assert plan.commands[0].needs_shell
    assert plan.risks == ()


def test_a_command_that_masks_its_exit_code_is_a_risk() -> None:
    assert [r.code for r in plan_checks("pytest || true", []).risks] == ["validation_masked"]
    assert [r.code for r in plan_checks("pytest | tail", []).risks] == ["validation_masked"]
    assert plan_checks("pytest | tail", [], pipefail=True).risks == ()


@pytest.mark.parametrize(
    ("names", "target"),
    [
        (["App.sln"], "App.sln"),
        (["App.sln", "A.csproj", "B.csproj", "readme.md"], "App.sln"),
        (["App.csproj", "Program.cs"], "App.csproj"),
        (["APP.SLN"], "APP.SLN"),
        (["App.sln", "._App.sln", ".sln"], "App.sln"),
    ],
)
def test_one_target_is_built_and_tested_naming_it(names: list[str], target: str) -> None:
    plan = plan_checks(None, names)
    assert plan.source is AUTO
    assert _texts(plan) == [f"dotnet build {target}", f"dotnet test {target}"]
    assert [c.argv for c in plan.commands] == [
        ("dotnet", "build", target),
        ("dotnet", "test", target),
    ]
    assert not plan.commands[0].needs_shell
    assert (plan.skipped_why, plan.risks) == ("", ())


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ([], "no *.sln or *.csproj"),
        (["Makefile", "App.sln.bak", "App.fsproj"], "no *.sln or *.csproj"),
        (["A.sln", "B.sln"], "2 *.sln files"),
        (["A.sln", "B.sln", "C.csproj"], "2 *.sln files"),
        (["A.csproj", "B.csproj", "C.csproj"], "3 *.csproj files"),
    ],
)
def test_without_one_target_validation_is_skipped_and_said_so(names: list[str], why: str) -> None:
    plan = plan_checks(None, names)
    assert (plan.source, plan.commands) == (NONE, ())
    assert why in plan.skipped_why
    assert [risk.code for risk in plan.risks] == ["validation_skipped"]
    assert why in plan.risks[0].message


@pytest.mark.parametrize(
    ("name", "argv"),
    [
        ("-x.sln", ("dotnet", "build", "./-x.sln")),
        ("@x.sln", ("dotnet", "build", "./@x.sln")),
        ("My App.sln", ("dotnet", "build", "My App.sln")),
    ],
)
def test_a_target_is_never_read_as_an_option(name: str, argv: tuple[str, ...]) -> None:
    assert plan_checks(None, [name]).commands[0].argv == argv


def test_a_target_with_a_hostile_name_is_shown_escaped_and_started_as_it_is() -> None:
    command = plan_checks(None, ["a\n\udcff.sln"]).commands[0]
    assert command.text == "dotnet build 'a\\n\\udcff.sln'"
    assert command.argv[2] == "a\n\udcff.sln"
    command.text.encode("utf-8")


@pytest.mark.parametrize(
    ("detector", "names", "texts"),
    [
        ("npm", ["package.json"], ["npm test"]),
        ("pytest", ["pyproject.toml"], ["pytest"]),
        ("cargo", ["Cargo.toml"], ["cargo build", "cargo test"]),
        ("go", ["go.mod"], ["go build ./...", "go test ./..."]),
        ("make", ["Makefile"], ["make test"]),
    ],
)
def test_another_detector_runs_only_where_the_host_names_it(
    detector: str, names: list[str], texts: list[str]
) -> None:
    assert plan_checks(None, names).source is NONE
    assert plan_checks(None, ["other"], [detector]).source is NONE
    plan = plan_checks(None, names, [detector])
    assert plan.source is AUTO
    assert _texts(plan) == texts
    assert detector in DETECTOR_NAMES


def test_the_first_detector_that_matches_decides_in_the_hosts_order() -> None:
    names = ["package.json", "Makefile"]
    assert _texts(plan_checks(None, names, ["unknown", "cargo", "make", "npm"])) == ["make test"]
    assert _texts(plan_checks(None, names, ["npm", "make"])) == ["npm test"]


_ROOTS = st.lists(
    st.sampled_from(
        ["A.sln", "B.sln", "A.csproj", "B.csproj", "package.json", "go.mod", "Makefile"]
    ),
    unique=True,
)


@given(_ROOTS, st.lists(st.sampled_from(DETECTOR_NAMES), unique=True))
def test_no_detector_changes_what_a_dotnet_tree_gets(names: list[str], named: list[str]) -> None:
    if any(name.endswith((".sln", ".csproj")) for name in names):
        assert plan_checks(None, names, named) == plan_checks(None, names)


@given(_ROOTS)
def test_the_order_of_a_listing_does_not_matter(names: list[str]) -> None:
    assert plan_checks(None, names) == plan_checks(None, names[::-1])


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (0, CommandState.PASSED),
        (1, CommandState.FAILED),
        (2, CommandState.FAILED),
        (125, CommandState.FAILED),
        (126, CommandState.NOT_RUN),
        (127, CommandState.NOT_RUN),
        (128, CommandState.FAILED),
        (137, CommandState.FAILED),
        (-9, CommandState.FAILED),
        (None, CommandState.NOT_RUN),
    ],
)
def test_a_commands_state_follows_its_exit_code(code: int | None, state: CommandState) -> None:
    assert command_state(code) is state
    assert command_state(code, timed_out=True) is CommandState.TIMED_OUT


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (CheckOutcome(text="x", state=CommandState.PASSED, exit_code=0), "x => exit 0"),
        (CheckOutcome(text="x", state=CommandState.FAILED, exit_code=3), "x => exit 3"),
        (CheckOutcome(text="x", state=CommandState.NOT_RUN, exit_code=127), "x => exit 127"),
        (CheckOutcome(text="x", state=CommandState.NOT_RUN, exit_code=126), "x => exit 126"),
        (
            CheckOutcome(text="x", state=CommandState.TIMED_OUT, exit_code=143, limit_s=1200.0),
            "x => timed out after 1200 s",
        ),
        (
            CheckOutcome(text="x", state=CommandState.TIMED_OUT, seconds=2.4),
            "x => timed out after 2 s",
        ),
        (
            CheckOutcome(text="x", state=CommandState.NOT_RUN, why="no such program"),
            "x => not started: no such program",
        ),
        (
            CheckOutcome(text="x", state=CommandState.NOT_RUN),
            "x => not started: no reason is known",
        ),
    ],
)
def test_each_outcome_has_its_line(outcome: CheckOutcome, line: str) -> None:
    assert attempted_lines([outcome]) == (line,)


def test_the_line_of_an_endless_command_keeps_its_outcome() -> None:
    outcome = CheckOutcome(text="x" * 60_000, state=CommandState.FAILED, exit_code=1)
    (line,) = attempted_lines([outcome])
    assert len(line) < 1_100
    assert line.endswith("x => exit 1")


def _planned(*texts: str) -> Plan:
    return Plan(source=AUTO, commands=tuple(PlannedCommand(text=t, argv=(t,)) for t in texts))


def test_validation_ran_when_every_command_was_really_run() -> None:
    outcomes = [
        CheckOutcome(text="a", state=CommandState.PASSED, exit_code=0, seconds=1.23456),
        CheckOutcome(text="b", state=CommandState.FAILED, exit_code=1),
    ]
    told = validation_of(_planned("a", "b"), outcomes)
    assert told.ran
    assert told.source is AUTO
    assert [(c.command, c.exit, c.seconds, c.state.value) for c in told.commands] == [
        ("a", 0, 1.235, "passed"),
        ("b", 1, 0.0, "failed"),
    ]


def test_a_command_that_was_planned_and_not_reached_stands_there_as_not_run() -> None:
    outcomes = [CheckOutcome(text="a", state=CommandState.FAILED, exit_code=1)]
    told = validation_of(_planned("a", "b"), outcomes)
    assert not told.ran
    assert [(c.command, c.state) for c in told.commands] == [
        ("a", CommandState.FAILED),
        ("b", CommandState.NOT_RUN),
    ]


def test_nothing_planned_is_nothing_run() -> None:
    told = validation_of(plan_checks(None, []), [])
    assert (told.ran, told.source, told.commands) == (False, NONE, ())


def test_a_validator_that_the_policy_names_is_started_as_it_stands() -> None:
    plan = plan_checks("unit", ("app.sln",), argv=("python3", "-m", "pytest", "a b"))
    assert [command.argv for command in plan.commands] == [("python3", "-m", "pytest", "a b")]
    assert plan.source is ValidationSource.OVERRIDE
