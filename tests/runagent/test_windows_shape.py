"""The text of the Windows launch, whole, for every CLI. No Windows runs it here."""

from __future__ import annotations

import pytest

from contracts.errors import LaunchRefused
from contracts.run_agent import AgentName
from runagent.agents import AGENTS, AgentPreset, Place
from runagent.clis import CLIS, CliFacts
from runagent.clis.windows_shape import PWSH, pwsh_argv, pwsh_command

PROMPT = 'Fix the parser; it\'s "broken"\n$(rm -rf /) -- `x`'
PATH = "C:\\Users\\o'neil\\runs\\prompt"
PLACE = Place("C:\\src\\repo-agents\\j1", 1_200)
BEGIN = (
    "$ErrorActionPreference = 'Stop'; "
    "$PSNativeCommandUseErrorActionPreference = $false; "
    "$OutputEncoding = [Text.UTF8Encoding]::new($false); "
    "$p = [IO.File]::ReadAllText('C:\\Users\\o''neil\\runs\\prompt'); "
    "if ([string]::IsNullOrEmpty($p)) { throw 'the staged prompt is empty' }; "
)
END = "; exit $LASTEXITCODE"
SNAPSHOTS = {
    "claude": "$null | & 'claude' '-p' \"$p\" '--permission-mode' 'acceptEdits' "
    "'--output-format' 'stream-json' '--verbose'",
    "codex": "$p | & 'codex' 'exec' '-C' 'C:\\src\\repo-agents\\j1' '--json' "
    "'--dangerously-bypass-approvals-and-sandbox' '--skip-git-repo-check' '-'",
    "agy": "$null | & 'agy' '--model' 'Gemini 3.1 Pro (High)' '--add-dir' "
    "'C:\\src\\repo-agents\\j1' '--output-format' 'stream-json' '--print-timeout' '1200s' "
    "'-p' \"$p\"",
    "gemini-cli": "$null | & 'gemini' '-p' \"$p\" '--output-format' 'stream-json' "
    "'--approval-mode' 'yolo' '--skip-trust'",
    "grok": "$null | & 'grok' '-p' \"$p\" '--disable-web-search' '--cwd' "
    "'C:\\src\\repo-agents\\j1' '--always-approve' '--output-format' 'streaming-json'",
}
EVERY = [(name, facts) for name, all_facts in CLIS.items() for facts in all_facts]


def text_of(name: AgentName, facts: CliFacts, prompt: str) -> str:
    preset = AgentPreset((facts.program,), facts.default_flags, variant=facts.cli)
    argv = AGENTS[name].argv(prompt, preset, PLACE)
    return pwsh_command(argv, prompt, PATH, prompt_on_stdin=AGENTS[name].prompt_on_stdin)


@pytest.mark.parametrize(("name", "facts"), EVERY, ids=[f.cli for _, f in EVERY])
def test_the_command_of_every_cli_is_this_text(name: AgentName, facts: CliFacts) -> None:
    assert text_of(name, facts, PROMPT) == BEGIN + SNAPSHOTS[facts.cli] + END


@pytest.mark.parametrize(("name", "facts"), EVERY, ids=[f.cli for _, f in EVERY])
def test_the_prompt_is_read_before_the_cli_is_named_and_stands_nowhere_in_the_text(
    name: AgentName, facts: CliFacts
) -> None:
    text = text_of(name, facts, PROMPT)
    assert text.startswith("$ErrorActionPreference = 'Stop';")
    assert text.index("ReadAllText") < text.index(f"'{facts.program}'")
    assert "rm -rf" not in text


def test_a_prompt_that_starts_with_a_dash_is_bound_to_its_option() -> None:
    facts = CLIS[AgentName.GROK][0]
    assert '"-p=$p"' in text_of(AgentName.GROK, facts, "--help me")
    claude = text_of(AgentName.CLAUDE, CLIS[AgentName.CLAUDE][0], "--help me")
    assert claude.endswith("'--' \"$p\"" + END)


def test_the_shell_itself_asks_nothing_and_loads_no_profile() -> None:
    argv = pwsh_argv(("codex", "exec", "-"), PROMPT, PATH, prompt_on_stdin=True)
    assert argv[: len(PWSH)] == PWSH
    assert len(argv) == len(PWSH) + 1


def test_words_without_a_prompt_are_refused() -> None:
    with pytest.raises(LaunchRefused):
        pwsh_command(("claude", "-p"), PROMPT, PATH, prompt_on_stdin=False)
