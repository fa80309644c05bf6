"""May this payload be a job: all problems at once, each naming its field and the remedy."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts import limits
from contracts.errors import InvalidRequest, PolicyRefused, Problem, Unavailable
from contracts.run_agent import RunAgentResult, Status
from tests.support.samples import NINE_KEYS, SEED_REQUEST, payload
from validation.admission import check_payload, refused_result
from validation.paths import Grammar

JOB_ID = "0123456789abcdef0123"


def _problems(value: object, grammar: Grammar = "any") -> dict[str, Problem]:
    with pytest.raises(InvalidRequest) as caught:
        check_payload(value, grammar=grammar)
    assert all(p.message and p.remedy for p in caught.value.problems)
    return {problem.field: problem for problem in caught.value.problems}


def test_the_contracts_own_example_passes_and_nothing_is_added_to_it() -> None:
    assert check_payload(SEED_REQUEST).to_payload() == SEED_REQUEST
    assert check_payload(payload()).to_payload() == payload()
    assert check_payload(OrderedDict(payload())).to_payload() == payload()


def test_every_problem_is_told_at_once_each_naming_its_field() -> None:
    bad = {
        "agent": "cursor",
        "task": "",
        "repo": "relative",
        "branch": "-q",
        "mode": "a\nb",
        "timeoutSec": "60",
        "validateCommand": None,
        "timeout": 5,
    }
    problems = _problems(bad)
    assert set(problems) == set(bad) | {"ticket"}


@pytest.mark.parametrize("name", ["agent", "task", "repo", "ticket"])
def test_a_required_field_that_is_missing_is_named(name: str) -> None:
    value = payload()
    del value[name]
    assert _problems(value)[name].message == "is missing"


@pytest.mark.parametrize("name", sorted(SEED_REQUEST))
def test_null_is_refused_and_leaving_out_is_the_remedy_where_one_may(name: str) -> None:
    problem = _problems(payload(**{name: None}))[name]
    assert problem.message == "is null"
    required = name in ("agent", "task", "repo", "ticket")
    assert problem.remedy == ("give a value" if required else "leave the field out")


@pytest.mark.parametrize("name", sorted(set(SEED_REQUEST) - {"timeoutSec"}))
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1, "a number"), (1.5, "a number with a fraction"), (True, "true or false"), ([], "a list"),
        ({}, "an object"), (b"x", "of another type"),
    ],
)  # fmt: skip
def test_text_of_another_type_is_refused_saying_which(name: str, value: object, shown: str) -> None:
    assert _problems(payload(**{name: value}))[name].message == f"is {shown}"


@pytest.mark.parametrize("name", sorted(set(SEED_REQUEST) - {"timeoutSec"}))
@pytest.mark.parametrize("value", ["", "  ", "\n\t"])
def test_empty_text_is_refused_in_every_field(name: str, value: str) -> None:
    assert _problems(payload(**{name: value}))[name].message == "is empty"


@pytest.mark.parametrize("name", sorted(set(SEED_REQUEST) - {"timeoutSec"}))
def test_half_a_character_is_refused_in_every_field(name: str) -> None:
    assert "lone surrogate" in _problems(payload(**{name: "/a\ud800"}))[name].message


@pytest.mark.parametrize("name", ["task", "repo", "ticket", "branch", "mode", "validateCommand"])
def test_a_nul_character_is_refused_in_every_field(name: str) -> None:
    assert name in _problems(payload(**{name: "/a\0b"}))


@pytest.mark.parametrize("agent", ["cursor", "Codex", "codex ", "agy", "ollama"])
def test_an_unknown_agent_is_answered_with_the_four(agent: str) -> None:
    problem = _problems(payload(agent=agent))["agent"]
    assert problem.remedy == "one of codex, claude, gemini, grok"
    assert agent.strip() not in problem.message


@pytest.mark.parametrize("agent", ["codex", "claude", "gemini", "grok"])
def test_each_of_the_four_agents_is_known(agent: str) -> None:
    assert check_payload(payload(agent=agent)).agent == agent


@pytest.mark.parametrize("agent", ["claude", "gemini", "grok"])
def test_a_task_over_28000_bytes_is_refused_for_agents_that_take_it_as_an_argument(
    agent: str,
) -> None:
    assert check_payload(payload(agent=agent, task="é" * 14_000))
    problem = _problems(payload(agent=agent, task="é" * 14_000 + "x"))["task"]
    assert problem.message == "is 28001 bytes"
    assert "28000" in problem.remedy
    assert "use codex for larger briefs" in problem.remedy


def test_codex_takes_a_brief_of_four_mebibytes() -> None:
    assert len(check_payload(payload(task="x" * 4 * 1024 * 1024)).task) == 4 * 1024 * 1024


def test_a_large_task_for_an_unknown_agent_has_one_problem_the_agent() -> None:
    assert set(_problems(payload(agent="x", task="y" * 30_000))) == {"agent"}
    assert set(_problems(payload(agent=["claude"], task="y" * 30_000))) == {"agent"}


def test_a_task_may_hold_lines_quotes_and_a_leading_dash() -> None:
    task = '-p "x"\n\t$(rm -rf /) é 👍\r\n'
    assert check_payload(payload(task=task)).task == task


@pytest.mark.parametrize("repo", ["/srv/repo", "C:\\src\\myrepo", "\\\\server\\share\\r"])
def test_a_sender_may_name_a_path_of_another_system(repo: str) -> None:
    assert check_payload(payload(repo=repo)).repo == repo


def test_a_host_takes_paths_of_its_own_system_only() -> None:
    assert check_payload(payload(), grammar="posix")
    assert "POSIX" in _problems(payload(repo="C:\\src"), "posix")["repo"].message
    assert "Windows" in _problems(payload(), "windows")["repo"].message


@pytest.mark.parametrize("ticket", ["a/b", "a\n", "..", "a.lock", "-q", "a" * 65, "a b", "é"])
def test_a_bad_ticket_is_refused_naming_the_rule(ticket: str) -> None:
    assert "1 to 64 of A-Z" in _problems(payload(ticket=ticket))["ticket"].remedy


@pytest.mark.parametrize("branch", ["--orphan", "-q", "$(cmd)", "a..b", "a b", "a\x1b", "x.lock"])
def test_a_branch_that_could_be_an_option_or_a_command_is_refused(branch: str) -> None:
    assert "no leading '-'" in _problems(payload(branch=branch))["branch"].remedy


@pytest.mark.parametrize("mode", ["build", "review / deep", "ä" * 64, "--x", "$(y)"])
def test_a_mode_is_free_text_on_one_line(mode: str) -> None:
    assert check_payload(payload(mode=mode)).mode == mode


@pytest.mark.parametrize("mode", ["a\nb", "a\x1b[0m", "a\u202eb", "x" * 65])
def test_a_mode_with_control_characters_or_without_end_is_refused(mode: str) -> None:
    assert "mode" in _problems(payload(mode=mode))


@pytest.mark.parametrize("seconds", [-1, 0, 1, 60, 1_200, 14_400, 999_999, limits.JSON_INT_MAX])
def test_every_integer_is_taken_as_a_timeout_and_kept(seconds: int) -> None:
    assert check_payload(payload(timeoutSec=seconds)).timeoutSec == seconds


@pytest.mark.parametrize("seconds", [True, False, "60", 60.0, float("nan"), [60], {}, 2**53])
def test_a_timeout_that_is_no_integer_of_json_is_refused(seconds: object) -> None:
    assert "timeoutSec" in _problems(payload(timeoutSec=seconds))


def test_a_validation_command_is_any_shell_text_within_its_size() -> None:
    text = "set -e\npytest -q\n"
    assert check_payload(payload(validateCommand=text)).validateCommand == text
    limit = limits.COMMAND_MAX_BYTES
    assert check_payload(payload(validateCommand="é" * (limit // 2)))
    problem = _problems(payload(validateCommand="é" * (limit // 2) + "x"))["validateCommand"]
    assert problem.message == f"is {limit + 1} bytes"


@pytest.mark.parametrize("value", [None, [], "x", 1, [("agent", "codex")]])
def test_a_payload_that_is_no_object_is_refused(value: object) -> None:
    assert set(_problems(value)) == {"payload"}


@pytest.mark.parametrize("kind", ["mail", "run_agent_v2", "", "RUN_AGENT"])
def test_an_unknown_kind_is_refused_naming_those_we_know(kind: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_payload(payload(), kind=kind)
    assert caught.value.problems[0].field == "kind"
    assert "run_agent" in caught.value.problems[0].remedy


def test_a_message_never_repeats_a_value() -> None:
    secret = "hunter2 \n"
    for name in set(SEED_REQUEST) - {"task", "validateCommand"}:
        with pytest.raises(InvalidRequest) as caught:
            check_payload(payload(**{name: secret}))
        assert "hunter2" not in str(caught.value)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*SEED_REQUEST, "other"]), _JSON, max_size=9) | _JSON)
def test_any_value_is_taken_unchanged_or_refused_with_all_nine_keys(value: Any) -> None:
    try:
        assert check_payload(value).to_payload() == value
    except InvalidRequest as error:
        result = json.loads(refused_result(value, error, job_id=JOB_ID, host="A").to_json())
        assert all(result[key] is not None for key in NINE_KEYS)


def _refused(value: object, error: Any = None) -> RunAgentResult:
    if error is None:
        with pytest.raises(InvalidRequest) as caught:
            check_payload(value)
        error = caught.value
    return refused_result(value, error, job_id=JOB_ID, host="A", seconds=0.25)


def test_a_refused_request_becomes_a_failed_result_that_says_what_and_how_to_mend_it() -> None:
    result = _refused(payload(ticket="a/b", timeout=5, mode="review"))
    assert result.status is Status.FAILED
    assert result.needs_human_review
    assert (result.agent, result.mode, result.host) == ("codex", "review", "A")
    assert (result.jobId, result.worktreePath, result.durationSeconds) == (JOB_ID, "", 0.25)
    assert result.changed_files == result.tests_attempted == ()
    assert {risk.code for risk in result.risks} == {"invalid_request"}
    assert len(result.known_risks) == 2
    assert any("did you mean timeoutSec?" in risk for risk in result.known_risks)
    assert result.summary.startswith("Not started: ")
    assert "ticket" in result.summary


@pytest.mark.parametrize("value", [None, "x", {"agent": "evil\n", "mode": 5}, {"agent": ["codex"]}])
def test_a_result_echoes_only_what_is_well_formed(value: object) -> None:
    result = _refused(value)
    assert (result.agent, result.mode) == ("", "build")


def test_a_result_names_the_reason_of_any_refusal_by_its_code() -> None:
    assert _refused(payload(), PolicyRefused("no", code="repo_root")).risks[0].code == "repo_root"
    assert _refused(payload(), PolicyRefused("no")).risks[0].code == "policy_refused"
    assert _refused(payload(), Unavailable("no disk", remedy="free some")).known_risks == (
        "no disk (free some)",
    )
    assert _refused(payload(), InvalidRequest([])).risks[0].code == "invalid_request"
    assert _refused(payload(), [Problem("repo", "is gone", "clone it")]).known_risks == (
        "repo: is gone (clone it)",
    )


def test_a_refusal_of_a_huge_payload_is_a_small_result() -> None:
    value = payload(**{f"field{n}" * 20: n for n in range(10_000)})
    assert len(_refused(value).to_json().encode()) < 100_000
