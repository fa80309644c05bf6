"""The verdict: every rule of the five statuses, and that nothing else is ever called clean."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.risk_codes import RiskCode
from contracts.run_agent import (
    CommandState,
    Risk,
    Status,
    Validation,
    ValidationCommand,
    ValidationSource,
)
from validation.verdict import (
    NO_CHANGES,
    RETRIED,
    AgentChange,
    AgentEnd,
    AgentRun,
    Judgement,
    goes_on_to_validation,
    judge,
    may_retry,
)

P, F, T, N = (
    CommandState.PASSED, CommandState.FAILED, CommandState.TIMED_OUT, CommandState.NOT_RUN,
)  # fmt: skip
AUTO, NONE, OVERRIDE = (
    ValidationSource.AUTODETECTED, ValidationSource.NONE, ValidationSource.OVERRIDE,
)  # fmt: skip
CHANGED = AgentChange(made=True, survives=True)


def _validation(source: ValidationSource, *states: CommandState) -> Validation:
    commands = tuple(ValidationCommand(command="x", state=state) for state in states)
    return Validation(ran=bool(states) and N not in states, source=source, commands=commands)


def _agent(
    end: AgentEnd = AgentEnd.EXITED_OK, code: int | None = 0, attempts: int = 1, why: str = ""
) -> AgentRun:
    return AgentRun(end=end, exit_code=code, attempts=attempts, why=why)


GOOD = _validation(OVERRIDE, P)


def _codes(judgement: Judgement) -> list[str]:
    return [risk.code for risk in judgement.risks]


def test_a_clean_run_is_completed_and_needs_nobody() -> None:
    for validation in (GOOD, _validation(AUTO, P, P)):
        judgement = judge(_agent(), validation, CHANGED)
        assert judgement == Judgement(Status.COMPLETED, (), False)
        assert judgement.known_risks == ()


@pytest.mark.parametrize(
    ("source", "states", "status", "codes"),
    [
        (OVERRIDE, (F,), Status.FAILED, ["validation_failed"]),
        (OVERRIDE, (T,), Status.FAILED, ["validation_timed_out"]),
        (OVERRIDE, (N,), Status.FAILED, ["validation_not_run"]),
        (OVERRIDE, (), Status.FAILED, ["validation_not_run"]),
        (AUTO, (F, N), Status.FAILED, ["validation_failed"]),
        (AUTO, (P, T), Status.FAILED, ["validation_timed_out"]),
        (AUTO, (N, N), Status.COMPLETED, ["validation_skipped"]),
        (AUTO, (P, N), Status.COMPLETED, ["validation_skipped"]),
        (AUTO, (), Status.COMPLETED, ["validation_skipped"]),
        (NONE, (), Status.COMPLETED, ["validation_skipped"]),
    ],
)
def test_after_exit_0_the_hosts_validation_decides(
    source: ValidationSource, states: tuple[CommandState, ...], status: Status, codes: list[str]
) -> None:
    judgement = judge(_agent(), _validation(source, *states), CHANGED)
    assert (judgement.status, _codes(judgement)) == (status, codes)
    assert judgement.needs_human_review


@pytest.mark.parametrize(
    ("end", "code", "status", "risk"),
    [
        (AgentEnd.FAILED, 1, Status.FAILED, "agent_failed"),
        (AgentEnd.FAILED, None, Status.FAILED, "agent_failed"),
        (AgentEnd.EXITED_OK, 1, Status.FAILED, "agent_failed"),
        (AgentEnd.EXITED_OK, None, Status.FAILED, "agent_failed"),
        (AgentEnd.RATE_LIMITED, 1, Status.RATE_LIMITED, "rate_limited"),
        (AgentEnd.RATE_LIMITED, None, Status.RATE_LIMITED, "rate_limited"),
        (AgentEnd.APPROVAL_REQUIRED, 1, Status.APPROVAL_REQUIRED, "approval_required"),
        (AgentEnd.TIMED_OUT, 143, Status.TIMED_OUT, "timed_out"),
        (AgentEnd.TIMED_OUT, 0, Status.TIMED_OUT, "timed_out"),
        (AgentEnd.ABORTED, 0, Status.FAILED, "interrupted"),
        (AgentEnd.ABORTED, None, Status.FAILED, "interrupted"),
        (AgentEnd.NOT_STARTED, None, Status.FAILED, "agent_not_started"),
        (AgentEnd.NOT_STARTED, 0, Status.FAILED, "agent_not_started"),
    ],
)
def test_an_agent_that_did_not_end_well_decides_by_how_it_ended(
    end: AgentEnd, code: int | None, status: Status, risk: str
) -> None:
    judgement = judge(_agent(end, code), Validation(), AgentChange(made=False, survives=False))
    assert (judgement.status, _codes(judgement)) == (status, [risk])
    assert judgement.needs_human_review
    assert not goes_on_to_validation(_agent(end, code))


@pytest.mark.parametrize("end", [AgentEnd.RATE_LIMITED, AgentEnd.APPROVAL_REQUIRED])
def test_an_agent_that_talks_of_limits_and_exits_0_is_validated_and_its_word_not_followed(
    end: AgentEnd,
) -> None:
    judgement = judge(_agent(end, 0), GOOD, CHANGED)
    assert (judgement.status, _codes(judgement)) == (Status.COMPLETED, ["report_not_followed"])
    assert judgement.needs_human_review
    assert judge(_agent(end, 0), _validation(OVERRIDE, F), CHANGED).status is Status.FAILED


def test_a_turn_that_failed_at_exit_0_is_failed_even_when_validation_passes() -> None:
    judgement = judge(_agent(AgentEnd.FAILED, 0, why="turn.failed"), GOOD, CHANGED)
    assert judgement.status is Status.FAILED
    assert judgement.known_risks == ("the agent failed (exit 0, turn.failed)",)


def test_a_run_that_passed_at_its_second_attempt_says_so_and_needs_review() -> None:
    judgement = judge(_agent(attempts=2), GOOD, CHANGED)
    assert (judgement.status, judgement.known_risks) == (Status.COMPLETED, (RETRIED,))
    assert judgement.needs_human_review


def test_an_agent_that_failed_twice_is_failed() -> None:
    judgement = judge(_agent(AgentEnd.FAILED, 3, attempts=2), Validation(), CHANGED)
    assert judgement.status is Status.FAILED
    assert judgement.known_risks == (RETRIED, "the agent failed twice (exit 3)")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (AgentChange(made=False, survives=False), "no_changes"),
        (AgentChange(made=False, survives=True), "no_changes"),
        (AgentChange(made=False, survives=False, ignored_only=True), "ignored_only"),
        (AgentChange(made=True, survives=True, ignored_only=True), "ignored_only"),
        (AgentChange(made=True, survives=False), "change_undone"),
    ],
)
def test_a_pass_without_a_change_of_the_agents_own_is_never_clean(
    change: AgentChange, code: str
) -> None:
    judgement = judge(_agent(), GOOD, change)
    assert (judgement.status, _codes(judgement)) == (Status.COMPLETED, [code])
    assert judgement.needs_human_review


def test_the_missing_change_is_told_in_the_contracts_words() -> None:
    judgement = judge(_agent(), GOOD, AgentChange(made=False, survives=False))
    assert judgement.known_risks == (NO_CHANGES,)


@pytest.mark.parametrize("code", ["evidence_incomplete", "evidence_missing", "could_not_look"])
def test_what_nobody_could_look_at_is_not_called_unchanged(code: str) -> None:
    unseen = Risk(code=code, message="git status failed")
    judgement = judge(_agent(), GOOD, AgentChange(made=False, survives=False), [unseen])
    assert judgement.risks == (unseen,)
    assert judgement.needs_human_review


def test_any_recorded_risk_forces_a_review_and_changes_no_status() -> None:
    risk = Risk(code="status_failed", message="git status failed")
    judgement = judge(_agent(), GOOD, CHANGED, [risk])
    assert judgement == Judgement(Status.COMPLETED, (risk,), True)


def test_risks_keep_their_order_and_stand_once() -> None:
    a, b = Risk(code="a", message="1"), Risk(code="b", message="1")
    judgement = judge(_agent(attempts=2), GOOD, CHANGED, [b, a, b, a])
    assert _codes(judgement) == ["b", "a", "retried"]
    assert judgement.known_risks == ("1", RETRIED)


def test_a_skip_that_was_planned_is_told_once_in_the_plans_words() -> None:
    planned = Risk(code="validation_skipped", message="validation was skipped: 2 *.sln files")
    judgement = judge(_agent(), _validation(NONE), CHANGED, [planned])
    assert judgement.risks == (planned,)


def test_validation_follows_exit_0_and_nothing_else() -> None:
    for end, code in itertools.product(AgentEnd, (0, 1, 143, None)):
        stopped = end in (AgentEnd.TIMED_OUT, AgentEnd.ABORTED, AgentEnd.NOT_STARTED)
        assert goes_on_to_validation(_agent(end, code)) == (code == 0 and not stopped)


def test_only_a_plain_nonzero_exit_is_tried_again_and_only_once() -> None:
    for end, code, attempts in itertools.product(AgentEnd, (0, 1, 143, None), (1, 2)):
        plain = end in (AgentEnd.FAILED, AgentEnd.EXITED_OK) and code in (1, 143)
        assert may_retry(_agent(end, code, attempts)) == (plain and attempts == 1)


_RUNS = st.builds(
    AgentRun,
    end=st.sampled_from(AgentEnd),
    exit_code=st.sampled_from([0, 0, 1, 127, 173, -15, None]),
    attempts=st.integers(1, 2),
    why=st.sampled_from(["", "429 Too Many Requests"]),
)
_VALIDATIONS = st.builds(
    Validation,
    ran=st.booleans(),
    source=st.sampled_from(ValidationSource),
    commands=st.lists(
        st.builds(ValidationCommand, command=st.just("x"), state=st.sampled_from(CommandState)),
        max_size=3,
    ).map(tuple),
)
_CHANGES = st.builds(
    AgentChange, made=st.booleans(), survives=st.booleans(), ignored_only=st.booleans()
)
_RISKS = st.lists(
    st.builds(Risk, code=st.sampled_from("ab"), message=st.sampled_from("xy")), max_size=3
)


@given(_RUNS, _VALIDATIONS, _CHANGES, _RISKS)
def test_no_facts_but_the_clean_ones_spare_a_review(
    agent: AgentRun, validation: Validation, change: AgentChange, risks: list[Risk]
) -> None:
    judgement = judge(agent, validation, change, risks)
    clean = (
        agent.end is AgentEnd.EXITED_OK
        and agent.exit_code == 0
        and agent.attempts == 1
        and validation.ran
        and validation.source is not NONE
        and bool(validation.commands)
        and all(command.state is P for command in validation.commands)
        and change == CHANGED
        and not risks
    )
    assert judgement.needs_human_review is not clean
    assert clean == (judgement.status is Status.COMPLETED and not judgement.risks)


@given(_RUNS, _VALIDATIONS, _CHANGES, _RISKS)
def test_the_agents_words_choose_no_status_after_exit_0(
    agent: AgentRun, validation: Validation, change: AgentChange, risks: list[Risk]
) -> None:
    status = judge(agent, validation, change, risks).status
    if agent.exit_code == 0:
        assert status not in (Status.RATE_LIMITED, Status.APPROVAL_REQUIRED)
    else:
        assert status is not Status.COMPLETED
    if status is Status.TIMED_OUT:
        assert agent.end is AgentEnd.TIMED_OUT


@given(_RUNS, _VALIDATIONS, _CHANGES, _RISKS)
def test_a_run_that_is_not_completed_says_why(
    agent: AgentRun, validation: Validation, change: AgentChange, risks: list[Risk]
) -> None:
    judgement = judge(agent, validation, change, risks)
    own = [risk for risk in judgement.risks if risk.code not in "ab"]
    assert judgement.status is Status.COMPLETED or own
    assert len(set(judgement.risks)) == len(judgement.risks)
    assert set(risks) <= set(judgement.risks)
    assert judge(agent, validation, change, risks) == judgement


# Every kind of fact beside every other: 7 ends, 3 exit codes, 2 attempts, 3 sources, 13 lists of
# states, told as run or not, 8 changes, with and without a risk.
_STATES = [
    states for length in range(3) for states in itertools.product(CommandState, repeat=length)
]
_EVERY_CHANGE = [AgentChange(made=m, survives=s, ignored_only=i)
                 for m, s, i in itertools.product((True, False), repeat=3)]  # fmt: skip
_A_RISK = Risk(code="tampered", message="the settings changed")


def _every_validation() -> list[Validation]:
    return [
        Validation(
            ran=ran,
            source=source,
            commands=tuple(ValidationCommand(command="x", state=state) for state in states),
        )
        for ran, source, states in itertools.product((True, False), ValidationSource, _STATES)
    ]


@pytest.mark.parametrize("end", AgentEnd)
def test_every_combination_of_facts_gets_the_status_of_the_table(end: AgentEnd) -> None:
    validations = _every_validation()
    for code, validation, change in itertools.product((0, 3, None), validations, _EVERY_CHANGE):
        status = judge(_agent(end, code), validation, change).status
        assert status is _by_the_page(end, code, validation), (code, validation)


def _by_the_page(end: AgentEnd, code: int | None, validation: Validation) -> Status:
    """Return the status as the table of docs/verdict.md has it, line by line."""
    if end is AgentEnd.TIMED_OUT:
        return Status.TIMED_OUT
    if end is AgentEnd.RATE_LIMITED and code != 0:
        return Status.RATE_LIMITED
    if end is AgentEnd.APPROVAL_REQUIRED and code != 0:
        return Status.APPROVAL_REQUIRED
    if code != 0 or end in (AgentEnd.ABORTED, AgentEnd.NOT_STARTED, AgentEnd.FAILED):
        return Status.FAILED
    states = {command.state for command in validation.commands}
    if validation.source is NONE:
        return Status.COMPLETED
    if states & {F, T}:
        return Status.FAILED
    passed = validation.ran and states == {P}
    return Status.FAILED if validation.source is OVERRIDE and not passed else Status.COMPLETED


@pytest.mark.parametrize("end", AgentEnd)
def test_no_combination_without_a_change_or_with_a_risk_goes_without_review(end: AgentEnd) -> None:
    clean = 0
    for code, attempts, validation, change, risks in itertools.product(
        (0, 3, None), (1, 2), _every_validation(), _EVERY_CHANGE, ((), (_A_RISK,))
    ):
        judgement = judge(_agent(end, code, attempts), validation, change, risks)
        assert judgement.needs_human_review or (
            (end, code, attempts, change, risks) == (AgentEnd.EXITED_OK, 0, 1, CHANGED, ())
            and judgement.status is Status.COMPLETED
            and judgement.risks == ()
        )
        clean += not judgement.needs_human_review
        assert {risk.code for risk in judgement.risks} <= set(RiskCode)
    # Two sources and lists of one or two passed commands, each really run.
    assert clean == (4 if end is AgentEnd.EXITED_OK else 0)


@given(_RUNS, _VALIDATIONS, st.sampled_from(RiskCode))
def test_no_risk_of_the_list_spares_a_review(
    agent: AgentRun, validation: Validation, code: RiskCode
) -> None:
    risk = Risk(code=code.value, message="seen")
    judgement = judge(agent, validation, CHANGED, [risk])
    assert judgement.needs_human_review
    assert risk in judgement.risks
