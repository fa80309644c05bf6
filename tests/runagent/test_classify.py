from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contracts.run_agent import AgentName
from runagent.agents import AGENTS
from runagent.agents.classify import Classified, classify
from runagent.agents.reading import Reading
from validation.verdict import AgentEnd

GOLDEN = Path(__file__).parents[1] / "golden" / "agents"


def read(name: str, stdout: str = "", stderr: str = "") -> Reading:
    reading = Reading(AGENTS[AgentName(name)])
    reading.take("stdout", stdout.encode())
    reading.take("stderr", stderr.encode())
    reading.finish()
    return reading


def end_of(name: str, exit_code: int, stdout: str = "", stderr: str = "") -> Classified:
    return classify(AgentName(name), exit_code, read(name, stdout, stderr))


def sample(name: str) -> str:
    return (GOLDEN / f"{name}.lines").read_text(encoding="utf-8")


def risks(found: Classified) -> set[str]:
    return {risk.code for risk in found.risks}


LIMITS = [
    "codex/usage-limit",
    "codex/too-many-requests",
    "claude/window-used-up",
    "claude/retrying",
    "gemini/cli-quota",
    "grok/too-many-requests",
]


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_in_the_events_and_a_nonzero_exit_is_rate_limited(name: str) -> None:
    assert end_of(name.partition("/")[0], 1, sample(name)).end is AgentEnd.RATE_LIMITED


@pytest.mark.parametrize("name", LIMITS)
def test_after_exit_0_no_limit_is_followed(name: str) -> None:
    found = end_of(name.partition("/")[0], 0, sample(name))
    assert found.end in (AgentEnd.EXITED_OK, AgentEnd.FAILED)
    assert found.risks  # and never without a word


LIMIT_LINES = [
    ("codex", "ERROR: You\u2019ve hit your usage limit. Try again at 8:03 PM."),
    ("codex", "ERROR: You've hit your usage limit."),
    ("codex", "ERROR: exceeded retry limit, last status: 429 Too Many Requests"),
    ("codex", "Error: rate limit exceeded: tokens per minute"),
    ("codex", "Quota exceeded. Check your plan and billing details."),
    ("claude", "API Error: Request rejected (429) \u00b7 This request would exceed the limit"),
    ("claude", "API Error: 429 {}"),
    ("claude", "You've hit your limit \u00b7 resets 8pm (UTC)"),
    ("claude", "Credit balance is too low"),
    ("claude", "Error: You're out of extra credits"),
    ("gemini", "Error when talking to Gemini API Full report at: /x TerminalQuotaError: You have"),
    ("gemini", "\x1b[31mTerminalQuotaError: daily\x1b[0m"),
    ("grok", "Error: requests: Rate limit reached for requests"),
]


@pytest.mark.parametrize(("name", "line"), LIMIT_LINES)
def test_a_cli_s_own_report_on_stderr_is_rate_limited(name: str, line: str) -> None:
    assert end_of(name, 1, stderr=f"noise\n{line}\n").end is AgentEnd.RATE_LIMITED


@pytest.mark.parametrize(("name", "line"), LIMIT_LINES)
def test_a_report_that_ends_plain_text_output_is_rate_limited(name: str, line: str) -> None:
    assert end_of(name, 1, stdout=f"{line}\n").end is AgentEnd.RATE_LIMITED


PROSE = [
    "I handled HTTP 429 and the usage limit: rate limit exceeded: is now retried.",
    "429 Too Many Requests is what the test expects",
    "The quota exceeded path and TerminalQuotaError: are covered; 529 too.",
    "Diff: + raise RateLimited('You have hit your usage limit')",
]


@pytest.mark.parametrize("prose", PROSE)
@pytest.mark.parametrize("name", [agent.value for agent in AgentName])
def test_what_the_agent_says_of_limits_is_no_limit(name: str, prose: str) -> None:
    said: dict[str, dict[str, Any]] = {
        "codex": {"type": "item.completed", "item": {"type": "agent_message", "text": prose}},
        "claude": {"type": "assistant", "message": {"content": [{"type": "text", "text": prose}]}},
        "gemini": {"type": "message", "role": "assistant", "content": prose},
        "grok": {"type": "text", "data": prose},
    }
    assert end_of(name, 1, json.dumps(said[name]) + "\n").end is AgentEnd.FAILED
    assert end_of(name, 1, f"{prose}\n").end is AgentEnd.FAILED
    assert end_of(name, 1, stderr=f"{prose}\n").end is AgentEnd.FAILED


def test_what_a_tool_printed_of_limits_is_no_limit() -> None:
    result = {"content": [{"type": "tool_result", "content": "API Error: 429 quota exceeded"}]}
    line = json.dumps({"type": "user", "message": result})
    assert end_of("claude", 1, line + "\n").end is AgentEnd.FAILED


def test_a_tool_s_words_on_stderr_do_not_outweigh_the_events() -> None:
    failed = json.dumps({"type": "turn.failed", "error": {"message": "stream disconnected"}})
    found = end_of("codex", 1, failed + "\n", stderr="Error: 429 Too Many Requests\n")
    assert found.end is AgentEnd.FAILED


def test_a_limit_that_the_run_got_over_does_not_explain_a_later_failure() -> None:
    went_on = {"type": "assistant", "message": {"content": [{"type": "text", "text": "On."}]}}
    lines = sample("claude/retrying") + json.dumps(went_on) + "\n"
    assert end_of("claude", 1, lines).end is AgentEnd.FAILED


def test_a_used_up_window_that_overage_pays_for_is_no_limit() -> None:
    assert end_of("claude", 1, sample("claude/overage")).end is AgentEnd.FAILED


def test_gemini_cli_says_a_limit_with_its_exit_code() -> None:
    assert end_of("gemini", 173).end is AgentEnd.RATE_LIMITED
    assert end_of("codex", 173).end is AgentEnd.FAILED


@pytest.mark.parametrize(
    "name", ["claude/denied", "gemini/agy-outside", "gemini/cli-tool-not-offered", "grok/denied"]
)
def test_a_denial_is_an_approval_after_a_nonzero_exit_and_a_risk_after_exit_0(name: str) -> None:
    agent = name.partition("/")[0]
    assert end_of(agent, 1, sample(name)).end is AgentEnd.APPROVAL_REQUIRED
    assert "permission_denied" in risks(end_of(agent, 0, sample(name)))


def test_codex_tells_of_a_denial_on_stderr_alone() -> None:
    line = "exec error: approval policy is Never; reject command: touch x\n"
    done = '{"type":"turn.completed","usage":{}}\n'
    assert end_of("codex", 1, stderr=line).end is AgentEnd.APPROVAL_REQUIRED
    assert "permission_denied" in risks(end_of("codex", 0, done, stderr=line))


def test_an_approval_that_nobody_answered_is_told() -> None:
    asked = '{"type":"control_request","request":{"subtype":"can_use_tool","tool_name":"Bash"}}\n'
    assert end_of("claude", 1, asked).end is AgentEnd.APPROVAL_REQUIRED
    assert "approval_asked" in risks(end_of("claude", 0, asked))


@pytest.mark.parametrize(
    "name", ["codex/no-login", "claude/no-login", "gemini/cli-no-login", "grok/no-login"]
)
def test_a_missing_login_is_a_failure_that_says_so(name: str) -> None:
    found = end_of(name.partition("/")[0], 1, sample(name))
    assert found.end is AgentEnd.FAILED
    assert "login_missing" in risks(found)


def test_codex_that_says_its_turn_failed_and_exits_0_has_failed() -> None:
    line = '{"type":"turn.failed","error":{"message":"stream disconnected"}}\n'
    found = end_of("codex", 0, line)
    assert found.end is AgentEnd.FAILED
    assert "turn_failed" in risks(found)


def test_claude_that_calls_its_result_an_error_and_exits_0_has_failed() -> None:
    line = '{"type":"result","subtype":"success","is_error":true,"result":"aborted"}\n'
    assert end_of("claude", 0, line).end is AgentEnd.FAILED


def test_the_last_of_several_results_counts() -> None:
    bad = '{"type":"result","subtype":"success","is_error":true,"result":"no"}\n'
    good = '{"type":"result","subtype":"success","is_error":false,"result":"yes"}\n'
    assert end_of("claude", 0, bad + good).end is AgentEnd.EXITED_OK
    assert end_of("claude", 0, good + bad).end is AgentEnd.FAILED


def test_a_warning_of_codex_is_no_failure() -> None:
    found = end_of("codex", 0, sample("codex/edit"))
    assert found == Classified(AgentEnd.EXITED_OK, ())


@pytest.mark.parametrize("name", ["claude/edit", "gemini/cli-edit", "gemini/agy-edit", "grok/edit"])
def test_a_good_run_is_a_good_end_without_a_risk(name: str) -> None:
    found = end_of(name.partition("/")[0], 0, sample(name))
    assert found == Classified(AgentEnd.EXITED_OK, ())


def test_exit_0_in_the_middle_of_a_turn_is_told() -> None:
    begun = '{"type":"system","subtype":"init","session_id":"s"}\n'
    found = end_of("claude", 0, begun)
    assert found.end is AgentEnd.EXITED_OK
    assert risks(found) == {"turn_unfinished"}


def test_a_cli_without_events_is_taken_at_its_exit_code() -> None:
    assert end_of("claude", 0, "Done.\n") == Classified(AgentEnd.EXITED_OK, ())
    assert end_of("claude", 1, "Oh no.\n") == Classified(AgentEnd.FAILED, ())
    assert classify(AgentName.GROK, None, read("grok")).end is AgentEnd.FAILED


@pytest.mark.parametrize("reason", ["max_tokens", "max_turn_requests", "refusal"])
def test_a_turn_of_grok_that_ended_before_its_work_was_done_is_never_clean(reason: str) -> None:
    def ended(stop_reason: str) -> Classified:
        reading = Reading(AGENTS[AgentName.GROK])
        line = json.dumps({"type": "end", "stopReason": stop_reason}) + "\n"
        reading.take("stdout", line.encode())
        return classify(AgentName.GROK, 0, reading)

    assert ended(reason).end is AgentEnd.FAILED
    assert [risk.code for risk in ended(reason).risks] == ["turn_failed"]
    assert ended("end_turn").end is AgentEnd.EXITED_OK
    assert ended("end_turn").risks == ()
