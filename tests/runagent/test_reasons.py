from __future__ import annotations

import json
import threading
from datetime import UTC, datetime

import pytest

from contracts.clock import ManualClock
from contracts.reason import Reason
from contracts.run_agent import AgentName
from runagent.agents import AGENTS
from runagent.agents.classify import classify
from runagent.agents.reading import Reading
from runagent.agents.reasons import Ended, reason_of
from runagent.attempt_end import Attempted, Patience, conclude
from runagent.bookings import Bookings
from runagent.cancellation import run_stoppable
from runagent.governor import AgentLimit, OpenGovernor, Spent
from runagent.process import EndState, ProcessOutcome, ProcessSpec, Script, ScriptedRunner
from runagent.settling import settle
from validation.verdict import AgentEnd

NOW = datetime(2026, 11, 30, 17, 7, tzinfo=UTC)


def reading_of(name: str, stdout: str = "", stderr: str = "") -> Reading:
    reading = Reading(AGENTS[AgentName(name)])
    reading.take("stdout", stdout.encode())
    reading.take("stderr", stderr.encode())
    reading.finish()
    return reading


def reason(name: str, exit_code: int, stdout: str = "", stderr: str = "") -> Reason | None:
    reading = reading_of(name, stdout, stderr)
    end = classify(AgentName(name), exit_code, reading).end
    return reason_of(Ended(agent=name, end=end, exit_code=exit_code), reading, NOW)


def code(name: str, exit_code: int, stdout: str = "", stderr: str = "") -> str | None:
    found = reason(name, exit_code, stdout, stderr)
    return found and found.code


def failed_turn(message: str) -> str:
    return json.dumps({"type": "turn.failed", "error": {"message": message}}) + "\n"


CODEX_SAYS = [
    ("Quota exceeded. Check your plan and billing details.", "billing"),
    ("rate limit exceeded: tokens per minute", "rate_limit"),
    ("You\u2019ve hit your usage limit. Try again at 8:03 PM.", "usage_limit"),
    ("unexpected status 401 Unauthorized: no key", "auth_expired"),
    ("stream disconnected before completion: connection reset", "dropped_stream"),
    ("unexpected status 503 Service Unavailable", "overloaded"),
    ("Codex ran out of room in the model's context window.", "context_full"),
    ("something else", "turn_failed"),
]


@pytest.mark.parametrize(("message", "expected"), CODEX_SAYS)
def test_a_failed_turn_is_named_by_the_cli_s_own_error(message: str, expected: str) -> None:
    assert code("codex", 1, failed_turn(message)) == expected


@pytest.mark.parametrize(("message", "expected"), CODEX_SAYS)
def test_the_same_words_in_the_agent_s_mouth_name_nothing(message: str, expected: str) -> None:
    said = {"type": "item.completed", "item": {"type": "agent_message", "text": message}}
    end = {"type": "turn.completed", "usage": {}}
    assert expected != "turn_failed" or code("codex", 0, failed_turn(message)) == "turn_failed"
    assert code("codex", 0, f"{json.dumps(said)}\n{json.dumps(end)}\n") is None


STDERR = [
    ("grok", "Error: Internal error: Unauthorized (401) from http://x", "auth_expired"),
    ("claude", "Error: socket hang up", "dropped_stream"),
    ("gemini", "Error: got status: 503 Service Unavailable", "overloaded"),
    ("gemini", "Error: The input token count (9) exceeds the maximum", "context_full"),
    ("codex", "the tool printed: 401 Unauthorized", "turn_failed"),  # not the shape of an error
]


@pytest.mark.parametrize(("name", "line", "expected"), STDERR)
def test_without_events_its_own_error_line_names_it(name: str, line: str, expected: str) -> None:
    assert code(name, 1, stderr=f"noise\n{line}\n") == expected


def test_a_signal_that_was_not_ours_is_a_crash_and_a_status_of_http_is_none() -> None:
    assert code("codex", 139) == "crashed"
    assert code("gemini", 145) == "auth_expired"
    assert code("gemini", 173) == "rate_limit"


def test_a_wrapper_that_finds_no_program_is_not_installed() -> None:
    found = reason("codex", 127, stderr="/usr/bin/env: 'node': No such file or directory\n")
    assert found is not None
    assert (found.code, "node" in found.message) == ("not_installed", True)


def test_a_window_that_is_used_up_tells_when_it_begins_anew() -> None:
    info = {"status": "rejected", "resetsAt": 1796069075, "rateLimitType": "five_hour"}
    lines = [
        {"type": "rate_limit_event", "rate_limit_info": info},
        {"type": "result", "is_error": True, "api_error_status": 429, "result": "hit your limit"},
    ]
    found = reason("claude", 1, "".join(json.dumps(line) + "\n" for line in lines))
    assert found is not None
    assert found.code == "usage_limit"
    assert found.resetsAt == "2026-11-30T20:04:35Z"
    assert found.retryAfterSec == 10_655


def test_an_answer_that_was_cut_is_no_clean_end() -> None:
    line = {"type": "result", "is_error": False, "result": "half", "stop_reason": "max_tokens"}
    reading = reading_of("claude", json.dumps(line) + "\n")
    assert code("claude", 0, json.dumps(line) + "\n") == "turn_failed"
    found = classify(AgentName.CLAUDE, 0, reading)
    assert [risk.code for risk in found.risks] == ["turn_unfinished"]


def retry(error: str, number: int) -> bytes:
    facts = {"type": "system", "subtype": "api_retry", "error": error, "attempt": number}
    return json.dumps({**facts, "retry_delay_ms": 2_000}).encode() + b"\n"


def patient(clock: ManualClock) -> tuple[Reading, Patience]:
    reading = Reading(AGENTS[AgentName.CLAUDE], monotonic=clock.monotonic)
    return reading, Patience(reading, 60.0)


def test_retries_that_go_on_are_given_up_after_the_bound() -> None:
    clock = ManualClock()
    reading, patience = patient(clock)
    for number in range(3):
        reading.take("stdout", retry("rate_limit", number))
        assert not patience.is_over()
        clock.advance(19)
    assert not patience.is_over()
    clock.advance(3)
    assert patience.is_over()


def test_an_agent_that_gets_on_is_waited_for_anew() -> None:
    clock = ManualClock()
    reading, patience = patient(clock)
    reading.take("stdout", retry("rate_limit", 1))
    clock.advance(59)
    said = {"type": "assistant", "message": {"content": [{"type": "text", "text": "on"}]}}
    reading.take("stdout", json.dumps(said).encode() + b"\n")
    reading.take("stdout", retry("rate_limit", 1))
    clock.advance(59)
    assert not patience.is_over()


def test_retries_because_of_an_overloaded_service_are_not_ours_to_end() -> None:
    clock = ManualClock()
    reading, patience = patient(clock)
    reading.take("stdout", retry("server_error", 1))
    clock.advance(600)
    assert not patience.is_over()


STOPS = [
    ("rate_limit", AgentEnd.RATE_LIMITED, "rate_limit"),
    ("authentication_failed", AgentEnd.FAILED, "auth_expired"),
]


@pytest.mark.parametrize(("error", "end", "expected"), STOPS)
def test_our_own_stop_and_not_the_exit_code_says_what_it_was(
    error: str, end: AgentEnd, expected: str
) -> None:
    reading = Reading(AGENTS[AgentName.CLAUDE])
    patience = Patience(reading, 0.0)
    reading.take("stdout", retry(error, 1))
    spec = ProcessSpec(argv=("claude",), cwd="/", env={}, timeout_s=60)
    runner = ScriptedRunner({"claude": Script(runs_for_s=3_600)})
    outcome = run_stoppable(runner, spec, threading.Event(), patience.is_over)
    for exit_code in (0, 143):
        seen = ProcessOutcome(state=outcome.state, exit_code=exit_code, why=outcome.why)
        found = conclude(AgentName.CLAUDE, 1, seen, reading, patience, NOW, ())
        assert found.run.end is end
        assert found.run.exit_code is None
        assert found.reason is not None
        assert found.reason.code == expected


@pytest.mark.parametrize("delay_ms", ["1e300", "1" + "0" * 400, "NaN", "-1", "1e14"])
def test_a_delay_that_no_clock_has_stays_out_of_the_reason(delay_ms: str) -> None:
    line = f'"type":"system","subtype":"api_retry","error":"rate_limit","retry_delay_ms":{delay_ms}'
    found = reason("claude", 1, f"{{{line}}}\n")
    assert found is not None
    assert found.retryAfterSec in (None, 0)  # what a reader of JSON takes as a number


def attempted(exit_code: int) -> Attempted:
    window = {"rateLimitType": "five_hour", "resetsAt": NOW.timestamp() + 900}
    line = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", **window}}
    reading = reading_of("claude", json.dumps(line) + "\n")
    outcome = ProcessOutcome(state=EndState.EXITED, exit_code=exit_code, why="")
    return conclude(AgentName.CLAUDE, 1, outcome, reading, Patience(reading, 60), NOW, ())


class Noting(OpenGovernor):
    def __init__(self) -> None:
        self.told: list[object] = []

    def settle(self, _agent: AgentName, _job_id: str, _attempt: int, spent: Spent, /) -> str:
        self.told.append(spent.started)
        return ""

    def close_until(self, _agent: AgentName, _job_id: str, limit: AgentLimit, /) -> str:
        self.told.append(limit.code)
        return ""


def test_a_limit_closes_a_pool_only_where_it_ended_the_attempt() -> None:
    for exit_code, told in ((1, [True, "usage_limit"]), (0, [True])):
        governor = Noting()
        bookings = Bookings(governor, AgentName.CLAUDE, "0123456789abcdef0123")
        bookings.admit(1)
        settle(bookings, 1, attempted(exit_code))
        assert governor.told == told


def test_a_start_that_nobody_settled_is_not_given_back() -> None:
    governor = Noting()
    bookings = Bookings(governor, AgentName.CLAUDE, "0123456789abcdef0123")
    for number in (1, 2):
        bookings.admit(number)
    bookings.begin(1)
    bookings.close()
    assert governor.told == [True, False]
