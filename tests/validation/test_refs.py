"""Git's ref rules in pure code, held against the real git."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts import limits
from contracts.naming import job_branch
from validation.refs import branch_problem, is_ref_name, ticket_problem

JOB_ID = "0123456789abcdef0123"


def _git_accepts(name: str) -> bool:
    # A leading dash would be read as an option; it is like any other character behind a prefix.
    one = f"refs/heads/{name}" if name.startswith("-") else name
    command = ["git", "check-ref-format", "--allow-onelevel", one]
    return subprocess.run(command, capture_output=True).returncode == 0


NAMES = [
    "master",
    "feature/x",
    "a.b",
    "a-b_c",
    "release/1.2.3",
    "x@y",
    "é",
    "-q",
    "--orphan",
    "HEAD",
    "",
    "@",
    "@{",
    "a@{b",
    ".a",
    "a/.b",
    "a.",
    "a/b.",
    "a./b",
    "a..b",
    "a.lock",
    "a.lock/b",
    "a.LOCK",
    "/a",
    "a/",
    "a//b",
    "a b",
    "a~b",
    "a^b",
    "a:b",
    "a?b",
    "a*b",
    "a[b",
    "a]b",
    "a\\b",
    "a\tb",
    "a\nb",
    "a\x7fb",
    "$(cmd)",
    "refs/heads/x",
    "a" * 300,
    "a.lockx",
    "..",
    "/",
    ".",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_a_ref_exactly_when_git_says_so(name: str) -> None:
    assert is_ref_name(name) == _git_accepts(name)


@settings(max_examples=150)
@given(
    st.text("ab./-@{~^:?*[\\ \x01\x7f_é", min_size=1, max_size=8)
    | st.lists(st.sampled_from(["a", ".", "..", ".lock", "/", "@", "@{", "-"]), max_size=6).map(
        "".join
    )
)
def test_any_name_is_a_ref_exactly_when_git_says_so(name: str) -> None:
    assert is_ref_name(name) == _git_accepts(name)


@settings(max_examples=100)
@given(st.text("aZ9._-", min_size=1, max_size=10) | st.just("a.lock") | st.just("x" * 64))
def test_a_ticket_that_passes_makes_a_branch_that_git_accepts(ticket: str) -> None:
    accepted = _git_accepts(job_branch(JOB_ID, ticket))
    assert (ticket_problem(ticket) is None) == (accepted and not ticket.startswith("-"))


@settings(max_examples=100)
@given(st.text("aZ9._-/", min_size=1, max_size=12))
def test_a_base_branch_that_passes_is_a_ref_that_git_accepts(branch: str) -> None:
    accepted = _git_accepts(branch)
    assert (branch_problem(branch) is None) == (accepted and not branch.startswith("-"))


@pytest.mark.parametrize(
    "ticket",
    [
        "",
        "a/b",
        "a b",
        "a\n",
        "é",
        "a\0",
        ".a",
        "a.",
        "a..b",
        "a.lock",
        "-a",
        "$(x)",
        "a" * 65,
        "٣",
    ],
)
def test_a_ticket_outside_the_rules_has_a_problem(ticket: str) -> None:
    assert ticket_problem(ticket)


@pytest.mark.parametrize("ticket", ["FLT-2", "a", "A_1.2-x", "a" * 64, "a.lockx", "_a"])
def test_an_ordinary_ticket_passes(ticket: str) -> None:
    assert ticket_problem(ticket) is None


@pytest.mark.parametrize(
    "branch",
    [
        "-q",
        "--orphan",
        "a..b",
        "$(cmd)",
        "a b",
        "a\n",
        "a~1",
        "@",
        "é",
        "a@{1}",
        "a.lock",
        "/a",
        "a//b",
    ],
)
def test_a_base_branch_outside_the_rules_has_a_problem(branch: str) -> None:
    assert branch_problem(branch)


def test_a_base_branch_may_be_long_but_not_endless() -> None:
    assert branch_problem("a" * limits.REF_MAX_BYTES) is None
    assert branch_problem("a" * (limits.REF_MAX_BYTES + 1)) == "is 201 characters long"
    assert branch_problem("feature/FLT-2.x_y") is None
