"""The CLIs as data: what stands there fits the adapters, and what a CLI says of itself is looked at
once, remembered, and never decides more than its own options."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.errors import InvalidRequest, Unavailable
from contracts.run_agent import AgentName, Status
from runagent.agents import AGENTS, AgentPreset, Place
from runagent.cli_check import CheckedCli, check_cli
from runagent.clis import CLIS, CliFacts, cli_of, facts_of
from runagent.clis.look import CliLook
from runagent.clis.options import refused_words, without_flags
from runagent.clis.versions import Standing, read_version, standing, words_of_tested
from runagent.process import system_runner
from tests.support.agents.bench import GOOD, Bench
from worker.settings import HostSettings, load_host_settings

EVERY = [(name, facts) for name, all_facts in CLIS.items() for facts in all_facts]
EACH = pytest.mark.parametrize(("name", "facts"), EVERY, ids=[f.cli for _, f in EVERY])
CLAUDE = facts_of(AgentName.CLAUDE)
PLACE = Place("/srv/tree", 60)


def preset(name: AgentName, facts: CliFacts) -> AgentPreset:
    return AgentPreset((facts.program,), facts.default_flags, variant=facts.cli)


@EACH
def test_the_facts_name_every_option_that_the_adapter_gives(
    name: AgentName, facts: CliFacts
) -> None:
    argv = AGENTS[name].argv("Do it.", preset(name, facts), PLACE)
    given, queue = [], list(argv[1:])
    while queue:
        word = queue.pop(0)
        if word.startswith("-") and word != "-":
            given.append(word)
            if word in facts.values:
                queue.pop(0)
    assert set(given) == set(facts.flags)
    assert facts.capabilities.stdin_prompt or not AGENTS[name].prompt_on_stdin


@EACH
def test_the_facts_place_each_cli_in_one_of_the_two_camps(name: AgentName, facts: CliFacts) -> None:
    argv = AGENTS[name].argv("Do it.", preset(name, facts), PLACE)
    assert facts.capabilities.honours_cwd or "/srv/tree" in argv


@pytest.mark.parametrize("name", AgentName)
def test_an_agents_first_cli_is_its_default(name: AgentName) -> None:
    default = AGENTS[name].default_preset()
    assert facts_of(name).program == AGENTS[name].executable == default.command[0]
    assert facts_of(name).default_flags == default.flags
    assert cli_of(name, default) is facts_of(name)


def test_gemini_cli_is_known_by_its_variant_and_by_its_name() -> None:
    named = AgentPreset(("/opt/tools/gemini.cmd",), ())
    assert cli_of(AgentName.GEMINI, named).cli == "gemini-cli"
    chosen = AgentPreset(("/opt/wrapped",), (), variant="gemini-cli")
    assert cli_of(AgentName.GEMINI, chosen).cli == "gemini-cli"
    assert AGENTS[AgentName.GEMINI].argv("x", chosen, PLACE)[1] == "-p"


@pytest.mark.parametrize(
    ("printed", "version", "stands"),
    [
        ("2.1.332 (Claude Code)", "2.1.332", Standing.TESTED),
        ("2.1.200", "2.1.200", Standing.TESTED),
        ("claude 2.1.9", "2.1.9", Standing.OLDER),
        ("2.2", "2.2", Standing.NEWER),
        ("v2.1.333-beta.1", "2.1.333-beta.1", Standing.NEWER),
        ("no number", "", Standing.UNKNOWN),
    ],
)
def test_a_version_is_read_and_held_against_the_tested_ones(
    printed: str, version: str, stands: Standing
) -> None:
    assert read_version(printed) == version
    assert standing(version, CLAUDE) is stands


def test_tested_versions_are_told_to_people() -> None:
    assert words_of_tested(CLAUDE) == "2.1.197 to 2.1.332"
    assert words_of_tested(facts_of(AgentName.GROK)) == "1.0.41"
    assert words_of_tested(facts_of(AgentName.GEMINI)) == "none"
    assert standing("1.2.3", facts_of(AgentName.GEMINI)) is Standing.UNKNOWN


def test_extra_words_are_options_that_the_facts_allow_and_nothing_else() -> None:
    allowed = ["--effort", "high", "--safe-mode", "--fallback-model=sonnet"]
    assert refused_words(allowed, CLAUDE) == ()
    assert refused_words(["--output-format", "text"], CLAUDE) == ("--output-format", "text")
    assert refused_words(["--effort"], CLAUDE) == ("--effort",)
    assert refused_words(["--safe-mode=x", "stray"], CLAUDE) == ("--safe-mode=x", "stray")


def test_a_prompt_is_never_taken_for_an_option_that_is_left_out() -> None:
    argv = AGENTS[AgentName.CLAUDE].argv(
        "--verbose", AGENTS[AgentName.CLAUDE].default_preset(), PLACE
    )
    left = without_flags(argv, {"--verbose", "--output-format"}, CLAUDE)
    assert left[-2:] == ("--", "--verbose")
    assert "stream-json" not in left


HELP = "\n".join(f"  {flag} <x>   something" for flag in CLAUDE.flags)


def cli(folder: Path, version: str, text: str = HELP, name: str = "claude") -> Path:
    folder.mkdir(exist_ok=True)
    program = folder / name
    (folder / "help.txt").write_text(text)
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/asked\n'
        f'case "$*" in *--version*) echo "{version}";; *--help*) cat {folder}/help.txt;; '
        f"*) exit 9;; esac\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def asked(folder: Path) -> list[str]:
    path = folder / "asked"
    return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., CheckedCli]:
    look = CliLook(system_runner(), tmp_path / "memory.json")
    chosen = AGENTS[AgentName.CLAUDE].default_preset()
    env = {"PATH": os.environ["PATH"]}

    def run(program: Path, flags: tuple[str, ...] = chosen.flags) -> CheckedCli:
        given = AgentPreset(("claude",), flags)
        return check_cli(AgentName.CLAUDE, given, str(program), env, look, cwd=str(tmp_path))

    return run


def test_a_tested_version_is_asked_for_once_and_its_help_never(
    tmp_path: Path, check: Callable[..., CheckedCli]
) -> None:
    program = cli(tmp_path / "bin", "2.1.332 (Claude Code)")
    first, second = check(program), check(program)
    assert first == second
    assert first.version == "2.1.332"
    assert first.notes == ()
    assert asked(tmp_path / "bin") == ["--version"]


def test_another_program_file_in_its_place_is_asked_anew(
    tmp_path: Path, check: Callable[..., CheckedCli]
) -> None:
    check(cli(tmp_path / "bin", "2.1.332"))
    (tmp_path / "bin" / "claude").unlink()
    found = check(cli(tmp_path / "bin", "2.1.197"))
    assert found.version == "2.1.197"


def test_an_untested_version_is_noted_and_an_option_it_lacks_is_left_out(
    tmp_path: Path, check: Callable[..., CheckedCli]
) -> None:
    grok = facts_of(AgentName.GROK)
    text = " ".join(flag for flag in grok.flags if flag != "--disable-web-search")
    program = cli(tmp_path / "bin", "grok 9.0.0", text, name="grok")
    look = CliLook(system_runner(), tmp_path / "memory.json")
    found = check_cli(
        AgentName.GROK,
        AGENTS[AgentName.GROK].default_preset(),
        str(program),
        {"PATH": os.environ["PATH"]},
        look,
        cwd=str(tmp_path),
    )
    assert found.left_out == {"--disable-web-search"}
    assert [note.code for note in found.notes] == ["agent_version_untested", "agent_flag_missing"]
    argv = AGENTS[AgentName.GROK].argv("x", AGENTS[AgentName.GROK].default_preset(), PLACE)
    assert "--disable-web-search" not in without_flags(argv, found.left_out, found.facts)


def test_a_cli_without_an_option_that_it_needs_is_not_started(
    tmp_path: Path, check: Callable[..., CheckedCli]
) -> None:
    program = cli(tmp_path / "bin", "3.0", "-p --output-format --verbose")
    with pytest.raises(Unavailable, match="--permission-mode"):
        check(program)
    # a host that gives other flags does not need it
    assert check(program, ("--restricted",)).left_out == frozenset()


def test_nothing_is_concluded_from_a_help_that_is_none(
    tmp_path: Path, check: Callable[..., CheckedCli]
) -> None:
    found = check(cli(tmp_path / "bin", "3.0", "usage: see the manual"))
    assert found.left_out == frozenset()


def test_a_cli_that_says_nothing_is_asked_again_and_started(
    tmp_path: Path, check: Callable[..., CheckedCli]
) -> None:
    program = cli(tmp_path / "bin", "no version")
    check(program)
    assert check(program).version == ""
    assert asked(tmp_path / "bin") == ["--version", "--version"]


def test_a_memory_that_is_spoilt_costs_the_memory_alone(
    tmp_path: Path, check: Callable[..., CheckedCli]
) -> None:
    program = cli(tmp_path / "bin", "2.1.332")
    check(program)
    memory = tmp_path / "memory.json"
    for text in ("[]", "{broken", json.dumps(dict.fromkeys(json.loads(memory.read_text()), 1))):
        memory.write_text(text)
        assert check(program).version == "2.1.332"
    memory.unlink()
    memory.mkdir()
    assert check(program).version == "2.1.332"


def test_the_version_stands_in_the_result_and_a_note_needs_no_review(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    real = (bench.bin / "claude").rename(bench.bin / "claude.real")
    wrapper = bench.bin / "claude"
    wrapper.write_text(
        f'#!/bin/sh\ncase "$1" in --version) echo 3.0.0; exit;; --help) exit 1;; esac\n'
        f'exec "{bench.bin}/inner/claude" "$@"\n'
    )
    wrapper.chmod(0o755)
    (bench.bin / "inner").mkdir()
    real.rename(bench.bin / "inner" / "claude")
    (bench.bin / "inner" / "claude.plan.json").write_text(json.dumps([GOOD]))
    look = CliLook(system_runner(), tmp_path / "memory.json")
    result = bench.run("claude", GOOD, ports={"look": look}, validateCommand="true")
    assert result.status is Status.COMPLETED, result.summary
    assert result.agentVersion == "3.0.0"
    assert [note.code for note in result.notes] == ["agent_version_untested"]
    assert not result.needs_human_review


def host(tmp_path: Path, config: str) -> HostSettings:
    (tmp_path / "config.toml").write_text(config)
    return load_host_settings(environ={"FLEET_DISPATCH_HOME": str(tmp_path)})


def test_a_host_chooses_model_variant_extra_words_and_variables_of_an_agent(
    tmp_path: Path,
) -> None:
    settings = host(
        tmp_path,
        '[agents.claude]\nmodel = "opus"\nextra_args = ["--effort", "high"]\nenv = ["MY_PROXY"]\n'
        '[agents.gemini]\nvariant = "gemini-cli"\nmodel = "gemini-3-pro"\n'
        "[agents.grok]\nflags = []\n",
    )
    claude = settings.presets[AgentName.CLAUDE]
    assert claude.flags[-4:] == ("--model", "opus", "--effort", "high")
    assert claude.flags[:2] == ("--permission-mode", "acceptEdits")
    assert claude.env == ("MY_PROXY",)
    gemini = settings.presets[AgentName.GEMINI]
    assert gemini.command == ("gemini",)
    argv = AGENTS[AgentName.GEMINI].argv("x", gemini, PLACE)
    assert argv[-5:] == ("--approval-mode", "yolo", "--skip-trust", "--model", "gemini-3-pro")
    assert settings.presets[AgentName.GROK].flags == ()
    agy = host(tmp_path, '[agents.gemini]\nmodel = "Gemini 4"\n').presets[AgentName.GEMINI]
    argv = AGENTS[AgentName.GEMINI].argv("x", agy, PLACE)
    assert argv[:3] == ("agy", "--model", "Gemini 4")
    assert argv.count("--model") == 1


@pytest.mark.parametrize(
    "section",
    [
        '[agents.gemini]\nvariant = "vibe"',
        '[agents.claude]\nextra_args = ["--output-format", "text"]',
        '[agents.claude]\nenv = ["GIT_DIR"]',
        '[agents.claude]\nmodel = "--evil"',
        '[agents.gpt]\nmodel = "x"',
    ],
)
def test_what_a_host_may_not_choose_is_refused_by_name(tmp_path: Path, section: str) -> None:
    with pytest.raises(InvalidRequest, match="agents"):
        host(tmp_path, section + "\n")


def test_a_variable_of_one_agent_reaches_that_agent_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.environment["MY_PROXY"] = "here"
    chosen = AGENTS[AgentName.CLAUDE].default_preset()
    presets = {AgentName.CLAUDE: AgentPreset(chosen.command, chosen.flags, env=("MY_PROXY",))}
    bench.run("claude", GOOD, ports={"presets": presets})
    bench.run("grok", GOOD, ports={"presets": presets})
    assert bench.calls("claude")[0]["env"]["MY_PROXY"] == "here"
    assert "MY_PROXY" not in bench.calls("grok")[0]["env"]
