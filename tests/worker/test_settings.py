"""The host's settings: one file, one order of sources, and a policy that is its owner's alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.errors import InvalidRequest, Refused
from contracts.run_agent import AgentName
from runagent.agents import AGENTS
from worker.settings import HostSettings, load_host_settings, load_policy, process_environment

CONFIG = """
[host]
name = "BOX"
lanes = ["A", "B", "A"]
concurrency = 3
[repo_paths]
"C:\\\\src" = "/src"
[agents.codex]
command = ["my-codex", "--fast"]
[agents.claude]
flags = []
[environment]
allow = ["MY_TOOL_HOME"]
[validation]
timeout_s = 60
[worktree]
timeout_s = 30
"""


def load(home: Path, config: str = CONFIG, **flags: object) -> HostSettings:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(config)
    return load_host_settings(environ={"FLEET_DISPATCH_HOME": str(home)}, flags=flags)


def test_the_file_is_read_into_one_frozen_value(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert (settings.host, settings.lanes, settings.concurrency) == ("BOX", ("A", "B"), 3)
    assert settings.repo_paths == {"C:\\src": "/src"}
    assert settings.allowed_variables == ("MY_TOOL_HOME",)
    assert (settings.validation_timeout_s, settings.worktree_timeout_s) == (60, 30)
    assert settings.journal_file == tmp_path / "state" / "journal.sqlite3"
    assert settings.runtime_dir("x") == tmp_path / "state" / "runs" / "x"
    assert settings.state_dir not in settings.witness_file.parents


def test_a_preset_takes_from_the_file_what_stands_there_and_the_rest_by_default(
    tmp_path: Path,
) -> None:
    presets = load(tmp_path).presets
    assert presets[AgentName.CODEX].command == ("my-codex", "--fast")
    assert presets[AgentName.CODEX].flags == AGENTS[AgentName.CODEX].default_preset().flags
    assert presets[AgentName.CLAUDE].flags == ()
    assert presets[AgentName.GROK] == AGENTS[AgentName.GROK].default_preset()


def test_an_unknown_agent_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"agents\.gpt: is not an agent"):
        load(tmp_path, "[agents.gpt]\ncommand = ['x']\n")


@pytest.mark.parametrize("name", ["GIT_DIR", "CLAUDECODE", "FLEET_DISPATCH_REDIS_URL"])
def test_a_variable_that_no_agent_may_have_is_refused_and_not_dropped(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(InvalidRequest, match=f"{name} is never handed to an agent"):
        load(tmp_path, f'[environment]\nallow = ["MY_TOOL_HOME", "{name}"]\n')


def test_a_policy_is_read_with_its_roots_resolved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    settings = load(tmp_path)
    settings.policy_file.write_text(f'[senders."*"]\nrepo_roots = ["{tmp_path}/link"]\n')
    settings.policy_file.chmod(0o600)
    _, rights = load_policy(settings).of("anyone")
    assert rights.repo_roots == (str(tmp_path / "real"),)


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        (None, 0o600, "fleet-dispatch init"),
        ("", 0o644, "chmod 600"),
        ("x = ", 0o600, "not TOML"),
        ("a = 1\nx y", 0o600, "line 2, column 3: this is not TOML"),
        ("colour = 1", 0o600, "colour"),
        ("\udcff", 0o600, "not TOML"),
    ],
)
def test_a_policy_that_cannot_be_used_says_why(
    text: str | None, mode: int, says: str, tmp_path: Path
) -> None:
    settings = load(tmp_path)
    if text is not None:
        settings.policy_file.write_bytes(text.encode("utf-8", "surrogateescape"))
        settings.policy_file.chmod(mode)
    with pytest.raises(Refused, match=says) as caught:
        load_policy(settings)
    assert caught.value.code == "policy"


def test_the_environment_is_a_copy() -> None:
    environment = process_environment()
    environment["PATH"] = "changed"
    assert process_environment()["PATH"] != "changed"
