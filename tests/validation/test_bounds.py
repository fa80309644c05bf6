"""A result is always whole and small, whatever an agent printed or left behind."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts import limits
from contracts.run_agent import Risk, RunAgentResult, Validation, ValidationCommand
from tests.support.samples import NINE_KEYS, result
from validation.bounds import TRUNCATED, bounded

LISTS = ("changed_files", "agent_changed_files", "validator_changed_files")


def _whole(one: RunAgentResult) -> dict[str, Any]:
    text = one.to_json()
    assert len(text.encode("utf-8")) < limits.RESULT_MAX_BYTES
    assert len(one.to_json(indent=2).encode("utf-8")) < limits.RESULT_MAX_BYTES
    value = json.loads(text)
    assert all(value[key] is not None for key in NINE_KEYS)
    assert bounded(one) == one
    assert isinstance(value, dict)
    return value


def test_a_small_result_is_left_as_it_is() -> None:
    small = result(
        changed_files=("a", "é"),
        changed_files_total=2,
        risks=(Risk(code="a", message="b"),),
        known_risks=("b",),
        renames=({"from": "a", "to": "b"},),
        paths_base64={"a\\xff": "Yf8="},
        later={"kept": True},
    )
    assert bounded(small) == small
    assert _whole(small)["later"] == {"kept": True}


def test_a_hundred_thousand_files_are_cut_with_their_number_and_a_risk() -> None:
    files = tuple(f"some/folder/with/a/name/file-{n:06}.txt" for n in range(100_000))
    cut = bounded(result(**dict.fromkeys(LISTS, files)))
    _whole(cut)
    for name in LISTS:
        kept = getattr(cut, name)
        assert kept == files[: len(kept)]
        assert 1_000 < len(kept) <= limits.LIST_MAX_ITEMS
    assert cut.changed_files_total == 100_000
    assert cut.needs_human_review
    assert [risk.code for risk in cut.risks] == [TRUNCATED]
    assert cut.known_risks == (cut.risks[0].message,)
    assert "changed_files (without 98000)" in cut.known_risks[0]


def test_the_number_of_files_that_the_host_counted_is_kept() -> None:
    assert bounded(result(changed_files=("a",), changed_files_total=7)).changed_files_total == 7


def test_long_names_are_cut_by_their_bytes_and_never_inside_one() -> None:
    files = tuple("\x01" * 4_000 + str(n) for n in range(100))
    cut = bounded(result(changed_files=files))
    _whole(cut)
    assert 0 < len(cut.changed_files) < 100
    assert set(cut.changed_files) <= set(files)


def test_a_wordy_agent_is_shortened_without_a_risk() -> None:
    cut = bounded(result(summary="a" * 10_000_000 + "the end"))
    assert len(cut.summary) == limits.SUMMARY_MAX_CHARS
    assert cut.summary.endswith("the end")
    assert not cut.needs_human_review
    assert not cut.risks


@pytest.mark.parametrize(
    "text", ["\x01" * 20_000, "\ud800" * 20_000, "👍" * 20_000, '"\\' * 20_000]
)
def test_hostile_text_in_every_field_leaves_a_whole_result(text: str) -> None:
    names = [
        "summary", "agent", "worktreePath", "jobId", "mode", "host", "baseRef", "baseCommit",
        "headCommit", "branch", "sessionId",
    ]  # fmt: skip
    fields: dict[str, Any] = dict.fromkeys(names, text)
    lists = dict.fromkeys((*LISTS, "tests_attempted", "known_risks"), (text,) * 3_000)
    one = result(
        **fields,
        **lists,
        renames=({"from": text, "to": text},) * 3_000,
        paths_base64={f"{n}{text[:2_000]}": text[:2_000] for n in range(100)},
        risks=tuple(Risk(code=text, message=f"{n}{text}") for n in range(300)),
        validation=Validation(commands=(ValidationCommand(command=text),) * 300),
    )
    cut = bounded(one)
    _whole(cut)
    assert cut.needs_human_review
    assert cut.risks[-1].code == TRUNCATED
    assert cut.known_risks[-1] == cut.risks[-1].message


def test_a_thousand_risks_keep_their_order_and_room_for_the_last_word() -> None:
    risks = tuple(Risk(code="a", message=f"risk {n}") for n in range(1_000))
    cut = bounded(result(risks=risks, known_risks=tuple(r.message for r in risks)))
    _whole(cut)
    assert len(cut.risks) == len(cut.known_risks) == limits.RISKS_MAX_ITEMS
    assert cut.risks[:-1] == risks[: limits.RISKS_MAX_ITEMS - 1]
    assert cut.risks[-1].code == TRUNCATED


def test_a_hundred_risks_that_just_fit_stay_whole_when_something_else_is_cut() -> None:
    risks = tuple(Risk(code="a", message=f"risk {n}") for n in range(limits.RISKS_MAX_ITEMS - 1))
    cut = bounded(result(risks=risks, changed_files=("x",) * 3_000))
    assert cut.risks[:-1] == risks
    _whole(cut)


def test_a_cut_that_was_recorded_before_is_recorded_once() -> None:
    told = Risk(code=TRUNCATED, message="the listing stopped at 5 000 nested folders")
    cut = bounded(result(risks=(told,), known_risks=(told.message,), changed_files=("x",) * 3_000))
    assert cut.risks == (told,)
    assert cut.known_risks == (told.message,)
    assert cut.needs_human_review


def test_the_line_of_a_long_command_keeps_its_exit_code() -> None:
    cut = bounded(result(tests_attempted=("x" * 60_000 + " => exit 1",)))
    assert cut.tests_attempted[0].endswith("x => exit 1")
    assert len(cut.tests_attempted[0]) == limits.RISK_MAX_CHARS


def test_further_fields_are_kept_while_they_are_small_and_can_be_written() -> None:
    validation = Validation.model_validate({"box": "bwrap"})
    assert _whole(bounded(result(validation=validation)))["validation"]["box"] == "bwrap"
    endless: list[Any] = []
    endless.append(endless)
    for value in ("x" * 100_000, "\ud800", float("nan"), endless, {1, 2}):
        cut = bounded(result(later=value))
        assert "later" not in _whole(cut)
        assert "further fields (without 1)" in cut.known_risks[0]


_TEXT = st.text(st.characters(exclude_categories=()), max_size=30)
_MANY = st.builds(
    lambda items, times: tuple(items * times),
    st.lists(_TEXT, max_size=4),
    st.sampled_from([1, 3, 2_000]),
)


@settings(max_examples=40)
@given(
    lists=st.fixed_dictionaries(dict.fromkeys((*LISTS, "tests_attempted", "known_risks"), _MANY)),
    summary=_TEXT,
    risks=st.lists(st.builds(Risk, code=_TEXT | st.just(TRUNCATED), message=_TEXT), max_size=130),
    review=st.booleans(),
    total=st.integers(0, 10**6),
)
def test_any_result_becomes_a_whole_one_and_stays_it(
    lists: dict[str, Any], summary: str, risks: list[Risk], review: bool, total: int
) -> None:
    one = result(
        **lists,
        summary=summary,
        risks=tuple(risks),
        needs_human_review=review,
        changed_files_total=total,
    )
    cut = bounded(one)
    _whole(cut)
    assert cut.changed_files_total == max(total, len(one.changed_files))
    assert cut.needs_human_review or not review
    if any(len(getattr(cut, name)) < len(getattr(one, name)) for name in LISTS):
        assert cut.needs_human_review
        assert any(risk.code == TRUNCATED for risk in cut.risks)
