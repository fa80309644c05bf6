"""What children inherit: by allow-list, never by leaving out."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from runagent.environment import (
    GIT_LOCATIONS,
    NEVER,
    agent_environment,
    git_environment,
    interpreter_environment,
    is_never,
    scrub_own_git_variables,
)

OUTER_AGENT = {
    "CLAUDECODE": "1",
    "CLAUDE_CODE_SESSION_ID": "s",
    "CLAUDE_CODE_MESSAGING_SOCKET": "/s",
    "CLAUDE_CODE_MESSAGING_TOKEN": "t",
    "CLAUDE_PID": "1",
    "AI_AGENT": "x",
}
OURS = {
    "FLEET_DISPATCH_HOME": "/keys",
    "FLEET_DISPATCH_REDIS_URL": "redis://:secret@h",
    "PYTHONPATH": "/ours",
    "PYTHONSAFEPATH": "1",
    "GIT_DIR": "/outer/.git",
    "GIT_INDEX_FILE": "/outer/index",
    "GIT_CONFIG_KEY_0": "core.fsmonitor",
    "GIT_CONFIG_VALUE_0": "evil",
}


def test_an_unknown_name_stays_out_and_a_known_one_goes_in() -> None:
    source = {"PATH": "/bin", "LC_TIME": "C", "SOME_SECRET": "x", "AWS_SECRET_ACCESS_KEY": "y"}

    assert agent_environment(source) == {
        "PATH": "/bin",
        "LC_TIME": "C",
        "TOKENROI_CONTEXT": "fleet-dispatch",
    }


@pytest.mark.parametrize(
    "name",
    [
        "HOME",
        "TMPDIR",
        "https_proxy",
        "SSL_CERT_FILE",
        "SYSTEMROOT",
        "APPDATA",
        "USERPROFILE",
        "PATHEXT",
        "DOTNET_ROOT",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CONFIG_DIR",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "OPENAI_API_KEY",
        "CODEX_HOME",
        "GEMINI_API_KEY",
        "GOOGLE_GEMINI_BASE_URL",
        "XAI_API_KEY",
        "GROK_HOME",
    ],
)
def test_places_logins_and_systems_names_are_inherited(name: str) -> None:
    assert agent_environment({name: "v"})[name] == "v"


@pytest.mark.parametrize(
    "name", ["SSH_AUTH_SOCK", "DOCKER_HOST", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"]
)
def test_doors_to_more_than_the_agents_own_login_stay_out_unless_the_host_adds_them(
    name: str,
) -> None:
    assert name not in agent_environment({name: "v"})
    assert agent_environment({name: "v"}, extra_names=[name])[name] == "v"


@pytest.mark.parametrize("name", sorted({**OUTER_AGENT, **OURS}))
def test_no_configuration_lets_an_agent_have_what_is_ours_or_an_outer_agents(name: str) -> None:
    source = {**OUTER_AGENT, **OURS}

    assert name not in agent_environment(source, extra_names=list(source), overrides=source)


def test_the_context_is_ours_whatever_the_source_says() -> None:
    built = agent_environment(
        {"TOKENROI_CONTEXT": "a"},
        extra_names=["TOKENROI_CONTEXT"],
        overrides={"TOKENROI_CONTEXT": "b", "JOB": "1"},
    )

    assert built == {"TOKENROI_CONTEXT": "fleet-dispatch", "JOB": "1"}


def test_the_source_is_not_changed() -> None:
    source = {"PATH": "/bin", "X": "1"}
    agent_environment(source, overrides={"PATH": "/other"})

    assert source == {"PATH": "/bin", "X": "1"}


def test_never_is_asked_in_upper_case_as_windows_compares() -> None:
    assert is_never("git_dir")
    assert is_never("Fleet_Dispatch_Home")
    assert not is_never("GIT_AUTHOR_NAME")
    assert not is_never("CLAUDE_CODE_OAUTH_TOKEN")


def test_windows_names_match_in_any_case_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Path" not in agent_environment({"Path": "x"})
    monkeypatch.setattr(os, "name", "nt")

    assert agent_environment({"Path": "x", "SystemRoot": "w", "ProgramFiles(x86)": "p"}) == {
        "Path": "x",
        "SystemRoot": "w",
        "ProgramFiles(x86)": "p",
        "TOKENROI_CONTEXT": "fleet-dispatch",
    }


def test_every_location_variable_of_the_installed_git_is_known() -> None:
    done = subprocess.run(("git", "rev-parse", "--local-env-vars"), stdout=subprocess.PIPE)
    names = set(done.stdout.decode().split())

    assert "GIT_DIR" in names
    assert names <= GIT_LOCATIONS
    assert GIT_LOCATIONS <= NEVER


def test_our_own_process_loses_gits_location_variables_and_nothing_else() -> None:
    own = {"GIT_DIR": "x", "GIT_CONFIG_KEY_3": "y", "GIT_AUTHOR_NAME": "me", "PATH": "/bin"}

    assert scrub_own_git_variables(own) == ("GIT_CONFIG_KEY_3", "GIT_DIR")
    assert own == {"GIT_AUTHOR_NAME": "me", "PATH": "/bin"}


def test_the_scrub_reaches_the_real_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_INDEX_FILE", "/outer/index")
    scrub_own_git_variables()

    assert "GIT_INDEX_FILE" not in os.environ


def git(folder: Path, *argv: str, env: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(("git", "-C", str(folder), *argv), env=env, capture_output=True)


def test_the_hosts_git_reads_no_configuration_but_the_repositorys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a user configuration and an outer repository in the environment
    canary = tmp_path / "canary"
    home = tmp_path / "home"
    home.mkdir()
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {canary}\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    (home / ".gitconfig").write_text(f"[core]\n\tfsmonitor = {program}\n", encoding="utf-8")
    repo = tmp_path / "repo"
    git(tmp_path, "init", "-q", str(repo), env=git_environment())
    (repo / "a").write_text("x", encoding="utf-8")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "outer"))
    # control: with the user's environment the program runs
    git(repo, "--git-dir=.git", "status", env=dict(os.environ))
    assert canary.exists()
    canary.unlink()
    # When the host's git looks
    done = git(repo, "status", "--porcelain", env=git_environment())

    assert done.stdout == b"?? a\n"
    assert not canary.exists()
    assert git(repo, "config", "--show-scope", "--list", env=git_environment()).stdout.count(
        b"local\t"
    ) == len(git(repo, "config", "--list", env=git_environment()).stdout.splitlines())


def test_the_hosts_git_asks_nobody_and_reaches_no_network(tmp_path: Path) -> None:
    done = git(tmp_path, "ls-remote", "https://127.0.0.1:1/x", env=git_environment())

    assert done.returncode == 128
    assert b"not allowed" in done.stderr


def test_a_bare_interpreter_of_ours_gets_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_DISPATCH_REDIS_URL", "redis://:secret@h")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/lib")

    assert interpreter_environment() == {"LD_LIBRARY_PATH": "/opt/lib"}
