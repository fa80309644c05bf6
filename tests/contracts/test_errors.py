"""The one error tree: kinds, exit codes, and messages that are safe to show."""

from __future__ import annotations

import pytest

from contracts import errors
from contracts.errors import ExitCode, FleetError, InvalidRequest, Problem, Refused

# Written down here as well, so that a changed kind or exit code is a changed promise.
TREE = {
    "FleetError": ("error", ExitCode.BUG, False),
    "InvalidRequest": ("invalid_request", ExitCode.REFUSED, False),
    "Refused": ("refused", ExitCode.REFUSED, False),
    "EnvelopeRefused": ("envelope_refused", ExitCode.REFUSED, False),
    "PolicyRefused": ("policy_refused", ExitCode.REFUSED, False),
    "RepositoryRefused": ("repository_refused", ExitCode.REFUSED, False),
    "KeysRefused": ("keys_refused", ExitCode.REFUSED, False),
    "CouldNotCheck": ("could_not_check", ExitCode.FAILED, True),
    "Unavailable": ("unavailable", ExitCode.REFUSED, True),
    "DiskFull": ("disk_full", ExitCode.REFUSED, True),
    "NotInstalled": ("not_installed", ExitCode.REFUSED, True),
    "AnswerLost": ("answer_lost", ExitCode.WAIT_TIMED_OUT, True),
    "BulkStopped": ("bulk_stopped", ExitCode.WAIT_TIMED_OUT, True),
    "LaunchRefused": ("launch_refused", ExitCode.FAILED, False),
    "WaitTimedOut": ("wait_timed_out", ExitCode.WAIT_TIMED_OUT, True),
    "Interrupted": ("interrupted", ExitCode.FAILED, True),
}


def _classes() -> list[type[FleetError]]:
    found = [value for value in vars(errors).values() if isinstance(value, type)]
    return [cls for cls in found if issubclass(cls, FleetError)]


def test_every_error_of_the_tree_is_listed_with_kind_exit_code_and_retryable() -> None:
    assert {c.__name__: (c.kind, c.exit_code, c.retryable) for c in _classes()} == TREE


def test_the_exit_codes_are_the_published_table() -> None:
    assert {code.name: code.value for code in ExitCode} == {
        "OK": 0,
        "BUG": 1,
        "REFUSED": 2,
        "WAIT_TIMED_OUT": 3,
        "FAILED": 4,
        "RATE_LIMITED": 5,
        "APPROVAL_REQUIRED": 6,
    }


def test_the_tree_is_drawn_at_the_head_of_the_module() -> None:
    assert errors.__doc__ is not None
    assert all(name in errors.__doc__ for name in TREE)


def test_refused_and_could_not_check_are_different_errors() -> None:
    assert not issubclass(errors.CouldNotCheck, Refused)
    assert not issubclass(Refused, errors.CouldNotCheck)


@pytest.mark.parametrize("cls", [c for c in _classes() if c is not InvalidRequest])
def test_a_message_holds_what_was_said_and_the_remedy_and_nothing_else(
    cls: type[FleetError],
) -> None:
    cause = ValueError("the secret content")
    with pytest.raises(FleetError) as caught:
        raise cls("no such thing", remedy="make one") from cause
    assert str(caught.value) == "no such thing (make one)"
    assert (caught.value.message, caught.value.remedy) == ("no such thing", "make one")
    assert caught.value.__cause__ is cause
    assert str(cls("alone")) == "alone"


def test_a_refusal_has_a_code_for_programs() -> None:
    assert Refused("no").code == "refused"
    assert Refused("no", code="lane").code == "lane"


def test_an_invalid_request_tells_every_problem() -> None:
    problems = [Problem("repo", "is missing", "give one"), Problem("task", "is empty", "say what")]
    error = InvalidRequest(iter(problems))
    assert error.problems == tuple(problems)
    assert str(error) == "repo: is missing (give one); task: is empty (say what)"


def test_an_invalid_request_without_problems_still_says_what_it_is() -> None:
    assert str(InvalidRequest([])) == "invalid request"
