from __future__ import annotations

import json

import pytest

from contracts.run_agent import AgentName
from runagent.agents import AGENTS
from runagent.agents.reading import Reading
from validation.redaction import Redactor


def text_of(part: str) -> bytes:
    return (json.dumps({"type": "text", "data": part}) + "\n").encode()


def test_parts_of_a_message_are_joined_and_a_tool_call_ends_it() -> None:
    reading = Reading(AGENTS[AgentName.GROK])
    for part in ("I will ", "look."):
        reading.take("stdout", text_of(part))
    reading.take("stdout", b'{"type":"tool_call","toolName":"read"}\n')
    assert reading.said == "I will look."
    reading.take("stdout", text_of("Done."))
    reading.finish()
    assert reading.said == "Done."


def test_a_subagent_does_not_speak_for_the_agent() -> None:
    reading = Reading(AGENTS[AgentName.CLAUDE])
    for parent, words in ((None, "Main."), ("t-1", "Sub.")):
        content = [{"type": "text", "text": words}]
        line = {"type": "assistant", "parent_tool_use_id": parent, "message": {"content": content}}
        reading.take("stdout", json.dumps(line).encode() + b"\n")
    assert reading.said == "Main."


def test_what_is_kept_is_bounded_however_much_is_printed() -> None:
    reading = Reading(AGENTS[AgentName.GROK])
    for _ in range(3_000):
        reading.take("stdout", text_of("y" * 1_000))
        reading.take("stderr", b"z" * 5_000 + b"\n")
    assert len(reading.said) <= 16_000
    assert sum(map(len, reading.plain["stderr"])) <= 60 * 2_000


def test_what_the_agent_says_and_does_is_shown_as_it_comes() -> None:
    shown: list[str] = []
    reading = Reading(AGENTS[AgentName.GROK], shown.append)
    reading.take("stdout", text_of("Looking.") + b'{"type":"tool_call","toolName":"read"}\nplain\n')
    assert shown == ["Looking.", "[read]", "plain"]


@pytest.mark.parametrize("secret", ["hunter2-hunter2", "sk-ant-" + "a" * 40, "kläßßßßß€-ü"])
def test_a_secret_that_is_split_between_two_reads_is_blanked_everywhere(secret: str) -> None:
    known = Redactor(["hunter2-hunter2", "kläßßßßß€-ü"])
    plain = f"a {secret} b\n".encode()
    whole = text_of(f"said {secret} c")
    parts = b"".join(text_of(part) for part in (f"said {secret[:4]}", f"{secret[4:]} c"))
    for offset in range(len(plain) + len(whole)):
        for words in (whole, parts):
            shown: list[str] = []
            reading = Reading(AGENTS[AgentName.GROK], shown.append, known)
            output = plain + words
            for stream, data in (("stdout", output), ("stderr", plain)):
                reading.take(stream, data[:offset])
                reading.take(stream, data[offset:])
            reading.finish()
            assert reading.said == "said [redacted] c"
            assert shown == ["a [redacted] b", "said [redacted] c"]
            assert list(reading.plain["stderr"]) == ["a [redacted] b"]


def test_a_secret_at_the_edge_of_what_is_kept_leaves_no_half() -> None:
    secret = "sk-ant-" + "a" * 60
    for edge in (1_980, 1_999, 15_980, 15_999):
        reading = Reading(AGENTS[AgentName.GROK])
        reading.take("stdout", b"x" * (edge - 1) + f" {secret} \n".encode())
        reading.take("stdout", text_of(f"{secret} " + "y" * edge))
        reading.finish()
        assert "sk-ant" not in reading.said
        assert "sk-ant" not in reading.plain["stdout"][0]


def test_a_last_line_without_an_end_is_read() -> None:
    reading = Reading(AGENTS[AgentName.GROK])
    reading.take("stdout", b'{"type":"end","stopReason":"end_turn","sessionId":"s-1"}')
    assert not reading.ended
    reading.finish()
    assert reading.ended
    assert reading.session_id == "s-1"


def test_a_line_that_no_reader_can_take_costs_itself_alone() -> None:
    """Around one depth a line can still be parsed and no longer be written out again."""
    for depth in range(880, 1_000):
        reading = Reading(AGENTS[AgentName.GROK])
        nested = "[" * depth + "]" * depth
        hostile = f'{{"type":"tool_call","rawInput":{{"a":{nested}}}}}\n'.encode()
        reading.take("stdout", hostile + text_of("Still here."))
        reading.finish()
        assert reading.said == "Still here."


HUGE = "1" + "0" * 400  # JSON takes it, no double holds it
UNCOUNTABLE = [
    f'{{"type":"system","subtype":"api_retry","error":"rate_limit","retry_delay_ms":{number}}}'
    for number in (HUGE, "1e300", "-1e300", "NaN", "Infinity", "true", '"1"', "[]")
] + [
    f'{{"type":"result","modelUsage":{{"m":{{"inputTokens":{number}}}}},"total_cost_usd":{number}}}'
    for number in (HUGE, "1e300", "-1e300", "NaN", "Infinity", "true", '"1"', "[]")
]


@pytest.mark.parametrize("line", UNCOUNTABLE, ids=lambda line: line[-30:])
def test_a_number_that_nobody_can_count_with_costs_no_line_after_it(line: str) -> None:
    reading = Reading(AGENTS[AgentName.CLAUDE])
    last = '{"type":"result","result":"Done.","session_id":"s-1"}'
    reading.take("stdout", f"{line}\n{last}\n".encode())  # in one read
    assert (reading.answer, reading.session_id) == ("Done.", "s-1")
    assert reading.usage is None or reading.usage.costUsd is None
