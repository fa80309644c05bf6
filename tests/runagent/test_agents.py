from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.run_agent import AgentName
from runagent.agents import AGENTS, AgentPreset, Place
from tests.support.agents.write_golden import events_of, samples

PLACE = Place("/srv/tree", 1_200)
WORDS = "Fix it"


def argv(name: AgentName, prompt: str = WORDS, preset: AgentPreset | None = None) -> list[str]:
    agent = AGENTS[name]
    return list(agent.argv(prompt, preset or agent.default_preset(), PLACE))


def test_every_agent_of_the_contract_is_there_under_its_own_name() -> None:
    assert set(AGENTS) == set(AgentName)
    assert all(agent.name is name for name, agent in AGENTS.items())


def test_codex_is_started_with_its_core_and_reads_its_prompt_from_stdin() -> None:
    assert argv(AgentName.CODEX) == [
        "codex",
        "exec",
        "-C",
        "/srv/tree",
        "--json",
        "--dangerously-bypass-approvals-and-sandbox",
        "--skip-git-repo-check",
        "-",
    ]
    assert AGENTS[AgentName.CODEX].prompt_on_stdin


def test_claude_is_started_with_its_core_and_a_structured_stream() -> None:
    assert argv(AgentName.CLAUDE) == [
        "claude",
        "-p",
        WORDS,
        "--permission-mode",
        "acceptEdits",
        "--output-format",
        "stream-json",
        "--verbose",
    ]


def test_agy_is_started_with_its_model_its_folder_and_the_time_limit_of_the_job() -> None:
    assert argv(AgentName.GEMINI) == [
        "agy",
        "--model",
        "Gemini 3.1 Pro (High)",
        "--add-dir",
        "/srv/tree",
        "--output-format",
        "stream-json",
        "--print-timeout",
        "1200s",
        "-p",
        WORDS,
    ]


def test_agy_never_gets_the_short_option_that_means_something_else_there() -> None:
    assert "-m" not in argv(AgentName.GEMINI)


def test_grok_is_started_with_its_core_and_a_structured_stream() -> None:
    assert argv(AgentName.GROK) == [
        "grok",
        "-p",
        WORDS,
        "--disable-web-search",
        "--cwd",
        "/srv/tree",
        "--always-approve",
        "--output-format",
        "streaming-json",
    ]


@pytest.mark.parametrize("command", [("gemini",), ("/opt/bin/gemini",), ("C:\\npm\\gemini.cmd",)])
def test_a_host_may_choose_gemini_cli_by_its_command(command: tuple[str, ...]) -> None:
    assert argv(AgentName.GEMINI, preset=AgentPreset(command, ())) == [
        *command,
        "-p",
        WORDS,
        "--output-format",
        "stream-json",
        "--approval-mode",
        "yolo",
        "--skip-trust",
    ]


@pytest.mark.parametrize("name", AgentName)
def test_a_host_may_choose_command_and_permission_flags(name: AgentName) -> None:
    chosen = argv(name, preset=AgentPreset(("npx", "thing"), ("--careful",)))
    assert chosen[:2] == ["npx", "thing"]
    assert "--careful" in chosen
    assert not set(AGENTS[name].default_preset().flags) & set(chosen)


@pytest.mark.parametrize("name", AgentName)
def test_an_agent_that_ignores_its_directory_names_the_worktree_in_its_argv(
    name: AgentName,
) -> None:
    agent = AGENTS[name]
    assert agent.honours_cwd or PLACE.worktree in argv(name)


def test_each_agent_stands_in_its_camp_on_purpose() -> None:
    honours = {name for name, agent in AGENTS.items() if agent.honours_cwd}
    assert honours == {AgentName.CLAUDE, AgentName.GROK}


@pytest.mark.parametrize("name", [n for n in AgentName if n is not AgentName.CODEX])
@given(prompt=st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=200))
def test_any_prompt_is_one_whole_argument(name: AgentName, prompt: str) -> None:
    holders = [word for word in argv(name, prompt) if word in (prompt, f"-p={prompt}")]
    other = f"{prompt[:1]} other words"  # one that starts alike: what stands beside it is the same
    beside = [word for word in argv(name, other) if word == prompt]
    assert len(holders) - len(beside) == 1


@pytest.mark.parametrize("name", [n for n in AgentName if n is not AgentName.CODEX])
@pytest.mark.parametrize("prompt", ["-rf / please", "--help", "-", "--", "-p"])
def test_a_prompt_that_starts_with_a_dash_cannot_be_read_as_an_option(
    name: AgentName, prompt: str
) -> None:
    words = argv(name, prompt)
    if f"-p={prompt}" not in words:
        assert words[-2:] == ["--", prompt]


@pytest.mark.parametrize("sample", samples(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_sample_lines_are_read_into_the_golden_events(sample: Path) -> None:
    assert events_of(sample) == sample.with_suffix(".events").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", AgentName)
@given(line=st.text(max_size=300))
def test_no_line_of_words_makes_a_reader_raise(name: AgentName, line: str) -> None:
    AGENTS[name].read_line(line)


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
_KEYS = st.sampled_from(
    [
        "type",
        "item",
        "message",
        "content",
        "usage",
        "error",
        "result",
        "subtype",
        "data",
        "status",
        "tool_info",
        "text",
        "delta",
        "rate_limit_info",
        "permission_denials",
        "errors",
        "request",
        "parameters",
        "rawInput",
        "changes",
    ]
)
_TREES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)
_TYPES = st.sampled_from(
    [
        "thread.started",
        "turn.failed",
        "turn.completed",
        "item.started",
        "item.completed",
        "error",
        "system",
        "assistant",
        "user",
        "rate_limit_event",
        "control_request",
        "result",
        "stream_event",
        "init",
        "message",
        "tool_use",
        "tool_result",
        "step_update",
        "text",
        "thought",
        "tool_call",
        "tool_call_update",
        "usage",
        "end",
    ]
)


@pytest.mark.parametrize("name", AgentName)
@given(kind=_TYPES, tree=st.dictionaries(_KEYS, _TREES, max_size=6))
def test_no_json_object_makes_a_reader_raise(
    name: AgentName, kind: str, tree: dict[str, object]
) -> None:
    events = AGENTS[name].read_line(json.dumps({**tree, "type": kind}))
    for event in events or ():
        event.model_dump_json()
