"""A host's policy: what is not written down is refused, with one typed reason."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import InvalidRequest, PolicyRefused
from contracts.run_agent import RunAgentRequest
from contracts.sandbox import Capability
from tests.support.samples import payload
from validation.policy import HostPolicy, SenderPolicy, parse_policy
from validation.policy_rules import Question, RuleAnswer, decide, explain

POLICY = parse_policy(
    tomllib.loads(
        """
        [senders.alice]
        kinds = ["run_agent"]
        lanes = ["MULTI-MODEL"]
        agents = ["codex", "claude"]
        repo_roots = ["/srv/repos", "/home/me/src"]
        validate = "any"
        max_timeout_s = 3600

        [senders.bob]
        repo_roots = ["/srv/repos"]
        validate = "named"
        lane_jobs = false

        [senders."*"]
        repo_roots = ["/srv/public"]

        [validators]
        unit = ["pytest", "-q", "tests/unit tests"]
        """
    )
)


def _decide(policy: HostPolicy = POLICY, **changes: Any) -> None:
    decide(policy, _question(**changes))


def _question(**changes: Any) -> Question:
    request = {k: changes.pop(k) for k in list(changes) if k in RunAgentRequest.model_fields}
    model = RunAgentRequest.model_validate(payload(**request))
    base: dict[str, Any] = {
        "sender": "alice",
        "lane": "MULTI-MODEL",
        "aud": "host:A",
        "kind": "run_agent",
        "agent": model.agent,
        "folder": changes.pop("repo_realpath", "/srv/repos/one"),
        "branch": model.branch or "",
        "validate_command": model.validateCommand,
        "timeout_s": model.effective_timeout_s,
    }
    return Question(**base | changes)


def _reason(**changes: Any) -> PolicyRefused:
    with pytest.raises(PolicyRefused) as caught:
        _decide(**changes)
    return caught.value


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"agent": "claude", "validateCommand": "anything | at all", "timeoutSec": 3_600},
        {"aud": "lane:MULTI-MODEL"},
        {"repo_realpath": "/srv/repos"},
        {"repo_realpath": "/home/me/src/a/b"},
        {"sender": "bob", "lane": "OTHER", "agent": "grok", "timeoutSec": 14_400},
        {"sender": "bob", "validateCommand": "pytest -q 'tests/unit tests'"},
        {"sender": "carol", "repo_realpath": "/srv/public/x", "lane": "ANY", "aud": "lane:ANY"},
    ],
)
def test_what_is_written_down_is_allowed(changes: dict[str, Any]) -> None:
    _decide(**changes)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"kind": "shell"}, "kind"),
        ({"kind": "run_agent_v2"}, "kind"),
        ({"lane": "OTHER"}, "lane"),
        ({"sender": "bob", "aud": "lane:MULTI-MODEL"}, "lane_jobs"),
        ({"agent": "grok"}, "agent"),
        ({"repo_realpath": "/srv"}, "repo_root"),
        ({"repo_realpath": "/srv/repos2"}, "repo_root"),
        ({"repo_realpath": "/srv/repos-agents/x"}, "repo_root"),
        ({"repo_realpath": "/srv/repos/../../etc"}, "repo_root"),
        ({"repo_realpath": "srv/repos/x"}, "repo_root"),
        ({"repo_realpath": ""}, "repo_root"),
        ({"repo_realpath": "/SRV/repos/x"}, "repo_root"),
        ({"sender": "carol"}, "repo_root"),
        (
            {"sender": "carol", "repo_realpath": "/srv/public/x", "validateCommand": "x"},
            "validate_command",
        ),
        ({"sender": "bob", "validateCommand": "pytest -q tests/unit tests"}, "validate_command"),
        ({"sender": "bob", "validateCommand": "unit; rm -rf /"}, "validate_command"),
        ({"timeoutSec": 3_601}, "timeout"),
    ],
)
def test_what_is_not_written_down_is_refused_with_its_reason(
    changes: dict[str, Any], code: str
) -> None:
    error = _reason(**changes)
    assert error.code == code
    assert "policy.toml" in str(error) or "validators" in str(error)
    assert error.remedy


def test_a_refusal_never_repeats_a_command_or_a_path() -> None:
    error = _reason(sender="bob", validateCommand="curl hunter2")
    assert "hunter2" not in str(error)
    assert "/secret" not in str(_reason(repo_realpath="/secret/place"))


def test_a_refusal_names_the_section_that_holds() -> None:
    assert '[senders."bob"]' in str(_reason(sender="bob", aud="lane:X"))
    assert '[senders."*"]' in str(_reason(sender="carol"))


def test_a_section_of_its_own_replaces_the_one_for_everybody() -> None:
    assert _reason(repo_realpath="/srv/public/x").code == "repo_root"


def test_the_bare_default_allows_run_agent_and_no_repository() -> None:
    name, rights = HostPolicy().of("alice")
    assert name == "alice"
    assert rights == SenderPolicy()
    assert (rights.kinds, rights.repo_roots, rights.validate_command) == (
        ("run_agent",),
        (),
        "none",
    )
    assert _reason(policy=HostPolicy()).code == "repo_root"
    assert _reason(policy=HostPolicy(), kind="pwsh").code == "kind"


def test_an_empty_list_allows_nothing_and_a_missing_one_everything() -> None:
    policy = parse_policy({"senders": {"alice": {"repo_roots": ["/srv"], "agents": []}}})
    assert _reason(policy=policy).code == "agent"
    policy = parse_policy({"senders": {"alice": {"repo_roots": ["/srv"], "lanes": []}}})
    assert _reason(policy=policy).code == "lane"
    _decide(parse_policy({"senders": {"alice": {"repo_roots": ["/srv"]}}}))


def test_a_timeout_is_compared_as_it_is_used() -> None:
    policy = parse_policy({"senders": {"*": {"repo_roots": ["/srv"], "max_timeout_s": 600}}})
    assert _reason(policy=policy).code == "timeout"  # unset means 1200
    _decide(policy, timeoutSec=1)


def test_windows_roots_are_compared_as_windows_does() -> None:
    policy = parse_policy({"senders": {"*": {"repo_roots": ["C:\\src"]}}})
    _decide(policy, repo_realpath="c:\\SRC\\one")
    for path in ("C:\\src2", "D:\\src\\one", "C:\\src\\..\\x", "/srv"):
        assert _reason(policy=policy, repo_realpath=path).code == "repo_root"


def test_roots_are_resolved_by_whoever_can_see_the_disk() -> None:
    resolved = POLICY.resolved(lambda root: root.replace("/srv", "/mnt/disk"))
    _decide(resolved, repo_realpath="/mnt/disk/repos/one")
    assert _reason(policy=resolved).code == "repo_root"
    assert resolved.validators == POLICY.validators


@pytest.mark.parametrize(
    ("data", "key"),
    [
        ({"sender": {}}, "sender"),
        ({"senders": {"alice": {"kindz": []}}}, "senders.alice.kindz"),
        ({"senders": {"alice": {"kinds": "run_agent"}}}, "senders.alice.kinds"),
        ({"senders": {"alice": {"kinds": [""]}}}, "senders.alice.kinds.0"),
        ({"senders": {"alice": {"agents": ["cursor"]}}}, "senders.alice.agents.0"),
        ({"senders": {"alice": {"repo_roots": ["relative"]}}}, "senders.alice.repo_roots"),
        ({"senders": {"alice": {"repo_roots": ["/a/../b"]}}}, "senders.alice.repo_roots"),
        ({"senders": {"alice": {"validate": "all"}}}, "senders.alice.validate"),
        ({"senders": {"alice": {"max_timeout_s": 0}}}, "senders.alice.max_timeout_s"),
        ({"validators": {"unit": "pytest"}}, "validators.unit"),
        ({"validators": {"unit": []}}, "validators.unit"),
        ({"senders": {"al ice": {}}}, "senders"),
        ({"senders": {"alice*": {}}}, "senders"),
        ({"senders": []}, "senders"),
    ],
)
def test_a_policy_with_a_wrong_key_or_value_is_refused_naming_it(
    data: dict[str, Any], key: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_policy(data, file="/etc/policy.toml")
    assert [problem.field for problem in caught.value.problems] == [key]
    assert "/etc/policy.toml" in str(caught.value)


def test_a_validator_that_is_no_argv_is_told_how_one_is_written() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_policy({"validators": {"unit": "pytest -q", "none": []}})
    assert all('["make", "test"]' in problem.remedy for problem in caught.value.problems)
    assert len(caught.value.problems) == 2


def test_every_problem_of_a_policy_is_told_at_once() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_policy({"x": 1, "senders": {"a": {"y": 1}}})
    assert {problem.field for problem in caught.value.problems} == {"x", "senders.a.y"}


_PARTS = st.lists(st.sampled_from(["a", "ab", "b", "..", "a b"]), min_size=1, max_size=4)


@given(root=_PARTS, path=_PARTS)
def test_a_repository_is_inside_a_root_by_whole_components(
    root: list[str], path: list[str]
) -> None:
    if ".." in root:
        return
    policy = parse_policy({"senders": {"*": {"repo_roots": ["/" + "/".join(root)]}}})
    inside = path[: len(root)] == root and ".." not in path
    try:
        _decide(policy, repo_realpath="/" + "/".join(path))
    except PolicyRefused:
        assert not inside
    else:
        assert inside


def test_what_must_be_enforced_is_asked_for_in_known_words_only() -> None:
    policy = parse_policy({"senders": {"alice": {"require_sandbox": ["keys", "sockets"]}}})
    asked = policy.of("alice")[1].require_sandbox
    assert asked == (Capability.KEYS, Capability.SOCKETS)
    assert policy.of("bob")[1].require_sandbox == ()
    with pytest.raises(InvalidRequest, match="require_sandbox"):
        parse_policy({"senders": {"alice": {"require_sandbox": ["moat"]}}})


BRANCHES = parse_policy(
    {"senders": {"*": {"repo_roots": ["/srv"], "branches": ["main", "release/*"]}}}
)


@pytest.mark.parametrize("branch", ["main", "release/1", "release/1/hotfix"])
def test_a_base_branch_that_matches_a_pattern_is_allowed(branch: str) -> None:
    _decide(BRANCHES, branch=branch)


@pytest.mark.parametrize("branch", ["master", "Main", "refs/heads/main", "xmain", "release", None])
def test_a_base_branch_that_matches_none_is_refused_and_so_is_a_choice_of_the_hosts(
    branch: str | None,
) -> None:
    assert (
        _reason(policy=BRANCHES, **({} if branch is None else {"branch": branch})).code == "branch"
    )


def test_a_host_may_choose_the_base_branch_where_every_one_is_allowed() -> None:
    _decide(parse_policy({"senders": {"*": {"repo_roots": ["/srv"], "branches": ["*"]}}}))


def test_a_validator_is_named_by_its_name_or_word_for_word() -> None:
    _decide(sender="bob", validateCommand="unit")
    words = "pytest -q 'tests/unit tests'"
    argv = ("pytest", "-q", "tests/unit tests")
    assert POLICY.validator("unit") == POLICY.validator(words) == ("unit", argv)
    assert POLICY.validator_argv("unit") == argv
    assert POLICY.validator_argv("units") == POLICY.validator_argv(None) == ()
    _decide(sender="alice", validateCommand="unit")


def test_a_kind_that_is_none_is_refused_in_the_file_and_another_name_is_the_kind() -> None:
    with pytest.raises(InvalidRequest, match="kinds"):
        parse_policy({"senders": {"*": {"kinds": ["run_agents"]}}})
    policy = parse_policy({"senders": {"*": {"kinds": ["pwsh", "ping"]}}})
    assert policy.of("x")[1].kinds == ("shell", "ping")
    other = Question(sender="x", lane="L", aud="host:A", kind="pwsh", is_unconfined=True)
    decide(policy, other)
    decide(policy, Question(sender="x", lane="L", aud="host:A", kind="ping"))


@pytest.mark.parametrize(
    ("section", "confines", "allowed"),
    [
        ({}, False, True),
        ({}, True, False),
        ({"require_sandbox": ["keys"]}, False, False),
    ],
)
def test_what_runs_in_no_sandbox_is_refused_where_one_must_be(
    section: dict[str, Any], confines: bool, allowed: bool
) -> None:
    policy = parse_policy({"senders": {"*": {"kinds": ["shell"], **section}}})
    asked = Question(
        sender="x",
        lane="L",
        aud="host:A",
        kind="shell",
        is_unconfined=True,
        host_confines=confines,
    )
    if allowed:
        decide(policy, asked)
        return
    with pytest.raises(PolicyRefused) as caught:
        decide(policy, asked)
    assert caught.value.code == "sandbox"


def test_how_many_run_at_a_time_is_told_and_never_a_refusal() -> None:
    policy = parse_policy({"senders": {"*": {"repo_roots": ["/srv"], "concurrency": 2}}})
    _decide(policy)
    assert "2 at a time" in _answers(policy, _question())["concurrency"].why
    assert "room" in _answers(POLICY, _question())["concurrency"].why


def _answers(policy: HostPolicy, question: Question) -> dict[str, RuleAnswer]:
    return {answer.rule: answer for answer in explain(policy, question)}


_SECTIONS = st.fixed_dictionaries(
    {},
    optional={
        "kinds": st.sampled_from([["run_agent"], ["ping"], ["shell", "run_agent"]]),
        "lanes": st.sampled_from([["L"], []]),
        "lane_jobs": st.booleans(),
        "agents": st.sampled_from([["codex"], ["claude"]]),
        "repo_roots": st.sampled_from([["/srv"], []]),
        "branches": st.sampled_from([["main"], ["*"], []]),
        "validate": st.sampled_from(["none", "named", "any"]),
        "max_timeout_s": st.sampled_from([60, 4000]),
        "concurrency": st.just(1),
        "require_sandbox": st.sampled_from([[], ["keys"]]),
    },
)
_QUESTIONS = st.builds(
    Question,
    sender=st.sampled_from(["a", "b"]),
    lane=st.sampled_from(["L", "M"]),
    aud=st.sampled_from(["host:A", "lane:L"]),
    kind=st.sampled_from(["run_agent", "ping", "shell", "pwsh", "mail"]),
    agent=st.sampled_from([None, "codex", "claude"]),
    folder=st.sampled_from([None, "/srv/x", "/etc"]),
    branch=st.sampled_from([None, "", "main", "dev"]),
    validate_command=st.sampled_from([None, "unit", "make"]),
    timeout_s=st.sampled_from([None, 60, 4001]),
    is_unconfined=st.booleans(),
    host_confines=st.booleans(),
)


@given(section=_SECTIONS, question=_QUESTIONS)
def test_the_decision_and_its_account_never_differ(
    section: dict[str, Any], question: Question
) -> None:
    policy = parse_policy({"senders": {"a": section}, "validators": {"unit": ["true"]}})
    refusing = [answer for answer in explain(policy, question) if not answer.allows]
    assert all(answer.remedy for answer in refusing)
    try:
        decide(policy, question)
    except PolicyRefused as error:
        assert (error.code, error.message) == (refusing[0].rule, refusing[0].why)
    else:
        assert not refusing
