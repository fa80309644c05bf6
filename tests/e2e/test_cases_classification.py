"""What a run is called, where other people's systems believed the agent's words: talk of limits,
a failed turn behind exit 0, a permission that nobody could give."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.desk import Desk

LIMIT_TALK = (
    "diff --git a/retry.py b/retry.py\n"
    "+    if status == 429: raise RateLimited('usage limit reached')\n"
    "+    if status == 529: back_off('overloaded_error')\n"
    "ERROR 429 Too Many Requests: quota exceeded, try again at 8:03 PM\n"
)
WRITE = "Path('retry.py').write_text('x = 1')\n"
TOOL_OUTPUT = (
    f"print_event(type='user', message=dict(role='user', content=[dict(type='tool_result', "
    f"content={LIMIT_TALK!r})]))\n"
)
CODEX_SAYS = (
    f"print_event(type='item.completed', item=dict(type='agent_message', text={LIMIT_TALK!r}))\n"
)
CODEX_RAN = (
    "print_event(type='item.completed', item=dict(type='command_execution', command='cat log', "
    f"aggregated_output={LIMIT_TALK!r}, exit_code=0))\n"
)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


# --- talk of limits ----------------------------------------------------------------------------
TALKING = [
    ("claude", f"say({LIMIT_TALK!r})\n"),
    ("claude", TOOL_OUTPUT),
    ("codex", CODEX_SAYS),
    ("codex", CODEX_RAN),
]


@pytest.mark.parametrize(("agent", "talk"), TALKING)
def test_a_diff_that_speaks_of_limits_leaves_a_good_run_a_good_run(
    desk: Desk, agent: str, talk: str
) -> None:
    end = "finish('Done.')" if agent == "claude" else "print_event(type='turn.completed')"
    desk.agent(WRITE + talk + end, name=agent)
    done = desk.run("--validate-cmd", "true", agent=agent)
    assert (done.code, done.result["status"]) == (0, "completed")
    assert (done.result["risks"], done.result["needs_human_review"]) == ([], False)


@pytest.mark.parametrize(("agent", "talk"), TALKING)
def test_a_diff_that_speaks_of_limits_does_not_make_a_failure_a_limit(
    desk: Desk, agent: str, talk: str
) -> None:
    desk.agent(WRITE + talk + "sys.exit(1)", name=agent)
    done = desk.run(agent=agent)
    assert (done.code, done.result["status"], done.result["attempts"]) == (4, "failed", 2)


@pytest.mark.parametrize(
    ("agent", "failure"),
    [
        ("codex", "print_event(type='turn.failed', error=dict(message='stream disconnected'))"),
        ("claude", "print_event(type='result', is_error=True, result='tool crashed')"),
    ],
)
def test_a_tools_words_on_stderr_do_not_outweigh_what_the_cli_reports(
    desk: Desk, agent: str, failure: str
) -> None:
    stderr = "print('ERROR: exceeded retry limit, last status: 429 Too Many Requests\\n'"
    stderr += "'API Error: 429 {}', file=sys.stderr)"
    desk.agent(f"{stderr}\n{failure}\nsys.exit(1)", name=agent)
    told = desk.run(agent=agent)
    assert (told.code, told.result["status"], told.result["attempts"]) == (4, "failed", 2)

    desk.agent(f"{stderr}\nsys.exit(1)", name=agent)  # the control: nothing else was reported
    control = desk.run(agent=agent)
    assert (control.code, control.result["status"]) == (5, "rate_limited")


@pytest.mark.parametrize(
    ("agent", "report"),
    [
        ("codex", "print_event(type='turn.failed', error=dict(message='429 Too Many Requests'))"),
        (
            "claude",
            "print_event(type='result', is_error=True, api_error_status=429, result='Error: 429')",
        ),
    ],
)
def test_control_a_limit_that_the_cli_itself_reports_is_one(
    desk: Desk, agent: str, report: str
) -> None:
    desk.agent(f"{report}\nsys.exit(1)", name=agent)
    done = desk.run(agent=agent)
    assert (done.code, done.result["status"], done.result["attempts"]) == (5, "rate_limited", 1)


def test_a_forged_limit_with_exit_0_is_validated_and_does_not_choose_the_status(
    desk: Desk,
) -> None:
    forged = "print_event(type='error', message='429 Too Many Requests')\n"
    desk.agent(WRITE + forged + "print_event(type='turn.completed')", name="codex")
    done = desk.run("--validate-cmd", "exit 7", agent="codex")
    assert (done.code, done.result["status"]) == (4, "failed")
    assert done.result["tests_attempted"] == ["exit 7 => exit 7"]


# --- a failed turn behind exit 0 ---------------------------------------------------------------
def test_codex_that_says_its_turn_failed_and_exits_0_has_failed(desk: Desk) -> None:
    failed = "print_event(type='turn.failed', error=dict(message='stream disconnected'))"
    desk.agent(WRITE + failed, name="codex")
    done = desk.run("--validate-cmd", "true", agent="codex")
    assert (done.code, done.result["status"]) == (4, "failed")
    assert "turn_failed" in done.codes
    assert done.result["exitCode"] == 0
    assert done.result["tests_attempted"] == ["true => exit 0"]

    # The control: a turn that ends well after a passing error is a good run.
    mended = "print_event(type='item.completed', item=dict(type='error', message='slow'))\n"
    desk.agent(WRITE + mended + "print_event(type='turn.completed')", name="codex")
    control = desk.run("--validate-cmd", "true", agent="codex")
    assert (control.code, control.result["needs_human_review"]) == (0, False)


# --- a permission that nobody could give -------------------------------------------------------
STUCK = "finish('I need your permission to go on.', permission_denials=[dict(tool_name='Bash')])"


@pytest.mark.parametrize("work", ["", WRITE], ids=["nothing done", "something done"])
def test_an_agent_that_was_denied_a_permission_is_never_a_clean_pass(desk: Desk, work: str) -> None:
    desk.agent(work + STUCK)
    done = desk.run("--validate-cmd", "true")
    assert "permission_denied" in done.codes
    assert done.result["needs_human_review"] is True
    assert ("no_changes" in done.codes) is (work == "")


def test_an_agent_that_only_says_that_it_waits_is_never_a_clean_pass(desk: Desk) -> None:
    desk.agent("say('Shall I go on? Please approve.')\nfinish('Waiting for your approval.')")
    done = desk.run("--validate-cmd", "true")
    assert "no_changes" in done.codes
    assert done.result["needs_human_review"] is True


def test_a_denied_permission_with_a_failure_is_an_approval_and_not_tried_again(desk: Desk) -> None:
    desk.agent(STUCK + "\nsys.exit(1)")
    done = desk.run()
    assert (done.code, done.result["status"]) == (6, "approval_required")
    assert done.result["attempts"] == 1
