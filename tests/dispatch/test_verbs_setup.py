"""init, keys and config: setting machines up."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.clock import SystemClock
from contracts.errors import InvalidRequest
from dispatch.commands.host_files import write_host_policy
from dispatch.keyring import HostKeyring, SenderKeyring
from dispatch.settings import load_settings
from tests.dispatch.conftest import Said
from validation.policy import parse_policy

Say = Callable[..., Said]


@pytest.fixture
def alice(tmp_path: Path) -> dict[str, str]:
    programs = tmp_path / "programs"
    programs.mkdir()
    codex = programs / "codex"
    codex.write_text("#!/bin/sh\necho codex-cli 9.8.7\n")
    codex.chmod(0o755)
    return {
        "FLEET_DISPATCH_HOME": str(tmp_path / "alice"),
        "USER": "alice",
        "PATH": f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin",
    }


def _files(home: str) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path(home).rglob("*") if path.is_file()}


def test_init_sets_a_machine_up_in_one_step(
    say: Say, alice: dict[str, str], tmp_path: Path
) -> None:
    root = tmp_path / "söurce code"
    root.mkdir()
    said = say("init", "--host", "DESK", "--lanes", "A,B", "--repo-root", str(root), environ=alice)
    assert said.code == 0, said.err
    assert "codex 9.8.7" in said.out

    settings = load_settings(environ=alice)
    places, clock = settings.places, SystemClock()
    assert (settings.sender_name, settings.host_name) == ("alice", "DESK")
    assert settings.host.lanes == ("A", "B")
    sender = SenderKeyring.load(places.keys_dir, "alice", clock)
    host = HostKeyring.load(places.keys_dir, "DESK", clock)
    assert sender.lanes_of("DESK") == {"A", "B"}
    assert host.audiences() == {"host:DESK", "lane:A", "lane:B"}
    policy = parse_policy(tomllib.loads(places.policy_file.read_text()))
    name, rights = policy.of("alice")
    assert (name, rights.kinds, rights.repo_roots) == ("alice", ("run_agent",), (str(root),))
    assert rights.validate_command == "any"
    assert policy.of("bob")[1].repo_roots == ()


def test_init_makes_everything_private(say: Say, alice: dict[str, str]) -> None:
    before = os.umask(0)
    try:
        assert say("init", environ=alice).code == 0
    finally:
        os.umask(before)
    home = Path(alice["FLEET_DISPATCH_HOME"])
    for path in [home, *home.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_a_second_init_changes_nothing_and_says_so(say: Say, alice: dict[str, str]) -> None:
    first = json.loads(say("init", "--json", environ=alice).out)
    before = _files(alice["FLEET_DISPATCH_HOME"])
    again = say("init", "--json")
    spoken = say("init")
    assert first["changed"] is True
    assert json.loads(again.out) == {**first, "changed": False, "made": []}
    assert "nothing was changed" in spoken.out
    assert _files(alice["FLEET_DISPATCH_HOME"]) == before


def test_init_without_a_root_explains_how_repositories_are_allowed(
    say: Say, alice: dict[str, str]
) -> None:
    said = say("init", environ=alice)
    assert "repo_roots" in said.out
    assert "policy.toml" in said.out


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("--sender", "bob"), "sender.name"),
        (("--host", "OTHER"), "host.name"),
        (("--lanes", "X"), "host.lanes"),
        (("--repo-root", "."), "--repo-root"),
    ],
)
def test_an_option_that_contradicts_what_is_there_is_an_error(
    say: Say, alice: dict[str, str], words: tuple[str, ...], field: str
) -> None:
    assert say("init", "--host", "DESK", "--lanes", "A", environ=alice).code == 0
    before = _files(alice["FLEET_DISPATCH_HOME"])
    said = say("init", *words, "--json")
    assert said.code == 2
    assert json.loads(said.out)["error"]["problems"][0]["field"] == field
    assert _files(alice["FLEET_DISPATCH_HOME"]) == before
    assert say("init", "--host", "DESK", "--lanes", "A").code == 0


def test_a_lane_named_twice_is_refused_before_anything_is_made(
    say: Say, alice: dict[str, str]
) -> None:
    said = say("init", "--lanes", "A, A", environ=alice)
    assert said.code == 2
    assert "--lanes" in said.err
    assert not Path(alice["FLEET_DISPATCH_HOME"]).exists()


def test_init_takes_a_lane_that_the_settings_name_twice_as_one(
    say: Say, alice: dict[str, str]
) -> None:
    assert say("init", environ=alice).code == 0
    config = Path(alice["FLEET_DISPATCH_HOME"]) / "config.toml"
    config.write_text(config.read_text().replace('lanes = ["MAIN"]', 'lanes = ["B", "B"]'))
    assert say("init", environ=alice).code == 0


def test_init_grants_anew_when_the_lanes_of_the_settings_changed(
    say: Say, alice: dict[str, str]
) -> None:
    assert say("init", "--host", "DESK", "--lanes", "A", environ=alice).code == 0
    config = Path(alice["FLEET_DISPATCH_HOME"], "config.toml")
    config.write_text(config.read_text().replace('lanes = ["A"]', 'lanes = ["A", "B"]'))
    said = json.loads(say("init", "--json").out)
    assert said["made"] == ["grant to this host"]
    settings = load_settings(environ=alice)
    ring = HostKeyring.load(settings.places.keys_dir, "DESK", SystemClock())
    assert "lane:B" in ring.audiences()


def test_init_refuses_keys_that_others_can_read(say: Say, alice: dict[str, str]) -> None:
    assert say("init", environ=alice).code == 0
    keys = Path(alice["FLEET_DISPATCH_HOME"], "keys")
    keys.chmod(0o755)
    said = say("init")
    assert said.code == 2
    assert f"chmod 700 {keys}" in said.err


def test_a_second_machine_is_granted_and_accepts(
    say: Say, alice: dict[str, str], tmp_path: Path
) -> None:
    assert say("init", environ=alice).code == 0
    file, root = tmp_path / "pc.json", tmp_path / "src"
    root.mkdir()
    granted = say("keys", "grant", "PC", "--lanes", "A, B", "--out", str(file), "--json")
    assert granted.code == 0, granted.err
    assert json.loads(granted.out)["lanes"] == ["A", "B"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    master = next(Path(alice["FLEET_DISPATCH_HOME"], "keys").glob("master.*")).read_text()
    assert json.loads(master)["secret"] not in file.read_text()

    pc = {**alice, "FLEET_DISPATCH_HOME": str(tmp_path / "pc"), "USER": "pcuser"}
    accepted = say("keys", "accept", str(file), "--repo-root", str(root), environ=pc)
    assert accepted.code == 0, accepted.err
    settings = load_settings(environ=pc)
    assert (settings.host_name, settings.host.lanes) == ("PC", ("A", "B"))
    ring = HostKeyring.load(settings.places.keys_dir, "PC", SystemClock())
    assert ring.audiences() == {"host:PC", "lane:A", "lane:B"}
    policy = parse_policy(tomllib.loads(settings.places.policy_file.read_text()))
    rights = policy.of("alice")[1]
    assert (rights.repo_roots, rights.validate_command) == ((str(root),), "none")

    assert 'refused until validate = "any"' in accepted.out
    assert "next: fleet-dispatch listen --lane A" in accepted.out

    again = say("keys", "accept", str(file), "--json")
    assert again.code == 0
    assert json.loads(again.out)["made"] == []


def test_accept_refuses_what_is_not_for_this_host_or_not_private(
    say: Say, alice: dict[str, str], tmp_path: Path
) -> None:
    assert say("init", "--host", "DESK", environ=alice).code == 0
    file = tmp_path / "pc.json"
    assert say("keys", "grant", "PC", "--lanes", "A", "--out", str(file)).code == 0
    foreign = say("keys", "accept", str(file), "--json")
    assert (foreign.code, json.loads(foreign.out)["error"]["code"]) == (2, "foreign")
    file.chmod(0o644)
    readable = say("keys", "accept", str(file), "--json")
    assert json.loads(readable.out)["error"]["code"] == "permissions"
    assert f"chmod 600 {file}" in readable.err
    missing = say("keys", "accept", str(tmp_path / "none"), "--json")
    assert json.loads(missing.out)["error"]["code"] == "missing"
    file.chmod(0o600)
    dropped = say("keys", "accept", str(file), "--host", "PC", "--repo-root", ".", "--json")
    assert (dropped.code, json.loads(dropped.out)["error"]["kind"]) == (2, "invalid_request")


def test_accept_writes_the_right_to_validate_when_the_owner_says_so(
    say: Say, alice: dict[str, str], tmp_path: Path
) -> None:
    assert say("init", environ=alice).code == 0
    file = tmp_path / "pc.json"
    assert say("keys", "grant", "PC", "--lanes", "A", "--out", str(file)).code == 0
    pc = {**alice, "FLEET_DISPATCH_HOME": str(tmp_path / "pc"), "USER": "pcuser"}
    accepted = say("keys", "accept", str(file), "--validate", "any", environ=pc)
    assert accepted.code == 0, accepted.err
    assert 'refused until validate = "any"' not in accepted.out
    places = load_settings(environ=pc).places
    policy = parse_policy(tomllib.loads(places.policy_file.read_text()))
    assert policy.of("alice")[1].validate_command == "any"
    again = say("keys", "accept", str(file), "--validate", "none", "--json")
    problems = json.loads(again.out)["error"]["problems"]
    assert (again.code, [item["field"] for item in problems]) == (2, ["--validate"])


def test_a_grant_file_is_never_overwritten(
    say: Say, alice: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert say("init", environ=alice).code == 0
    assert say("keys", "grant", "PC", "--lanes", "A").code == 0
    before = (tmp_path / "PC.grant.json").read_bytes()
    again = say("keys", "grant", "PC", "--lanes", "A,B", "--json")
    assert (again.code, json.loads(again.out)["error"]["code"]) == (2, "exists")
    assert (tmp_path / "PC.grant.json").read_bytes() == before
    listed = json.loads(say("keys", "list", "--json").out)
    assert [item["lanes"] for item in listed["granted"] if item["host"] == "PC"] == [["A"]]
    nowhere = say("keys", "grant", "PC", "--lanes", "A", "--out", "none/x.json")
    assert nowhere.code == 2


def test_the_list_of_keys_shows_both_sides_and_no_secret(say: Say, alice: dict[str, str]) -> None:
    assert say("init", "--host", "DESK", "--lanes", "A", environ=alice).code == 0
    secrets = [
        item
        for path in Path(alice["FLEET_DISPATCH_HOME"], "keys").glob("*.json")
        for item in _secrets(json.loads(path.read_text()))
    ]
    assert len(secrets) == 11
    spoken, listed = say("keys", "list"), say("keys", "list", "--json")
    assert not [secret for secret in secrets if secret in spoken.out + listed.out]
    document = json.loads(listed.out)
    assert [item["sender"] for item in document["senders"]] == ["alice"]
    assert [(item["host"], item["valid"]) for item in document["granted"]] == [("DESK", True)]
    assert [(item["host"], item["valid"]) for item in document["accepted"]] == [("DESK", True)]
    assert "DESK" in spoken.out


def _secrets(record: dict[str, object]) -> list[str]:
    keys = record.get("keys", [])
    assert isinstance(keys, list)
    found = [record["secret"]] if "secret" in record else []
    return [str(item) for item in [*found, *(key["secret"] for key in keys)]]


def test_keys_without_init_say_what_to_do(say: Say, alice: dict[str, str]) -> None:
    for words in (("keys", "list"), ("keys", "grant", "PC", "--lanes", "A")):
        said = say(*words, environ=alice)
        assert said.code == 2
        assert "fleet-dispatch init" in said.err


def test_config_shows_how_each_agent_is_started_and_who_says_so(say: Say, own_home: Path) -> None:
    home = own_home / "fleet"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text('[agents.codex]\ncommand = ["my-codex"]\n')
    said = say("config", "show", "--json", environ={"FLEET_DISPATCH_HOME": str(home)})
    rows = {row["key"]: row for row in json.loads(said.out)["settings"]}
    assert rows["agents.codex.command"]["value"] == ["my-codex"]
    assert rows["agents.codex.command"]["source"].startswith("file ")
    assert rows["agents.codex.flags"]["value"], "what it is started with, though nobody set it"
    assert rows["agents.codex.flags"]["source"] == "default"
    assert {"agents.claude.command", "agents.gemini.command", "agents.grok.flags"} <= set(rows)


def test_config_show_names_each_source_and_masks_passwords(say: Say, alice: dict[str, str]) -> None:
    assert say("init", environ=alice).code == 0
    config = Path(alice["FLEET_DISPATCH_HOME"], "config.toml")
    extra = '\n[agents.codex]\nflags = ["-x"]\n[repo_paths]\n"C:\\\\src" = "/src"\n'
    config.write_text(config.read_text() + extra)
    url = "redis://u:hunter2@127.0.0.1:1/0"
    said = say("config", "show", "--json", environ={"FLEET_DISPATCH_REDIS_URL": url})
    rows = {row["key"]: row for row in json.loads(said.out)["settings"]}
    assert rows["fleet.redis_url"] == {
        "key": "fleet.redis_url",
        "value": "redis://u:***@127.0.0.1:1/0",
        "source": "environment FLEET_DISPATCH_REDIS_URL",
    }
    assert rows["sender.name"]["source"] == f"file {config}"
    assert rows["worktree.timeout_s"]["source"] == "default"
    assert rows["agents.codex.flags"]["value"] == ["-x"]
    assert rows["repo_paths"]["value"] == {"C:\\src": "/src"}
    flag = say("config", "show", "--redis-url", "redis://h/0")
    assert "flag" in flag.out
    assert "hunter" not in said.out + flag.out


@pytest.mark.parametrize("url", ["redis://:hunter3@h/0", "redis://h/0?password=hunter3"])
def test_a_password_on_the_command_line_is_refused_and_not_repeated(say: Say, url: str) -> None:
    said = say("config", "show", "--redis-url", url, "--json")
    assert said.code == 2
    assert "password_file" in said.err + said.out
    assert "hunter3" not in said.err + said.out


def test_a_wrong_configuration_is_exit_2_with_one_document(say: Say, alice: dict[str, str]) -> None:
    assert say("init", environ=alice).code == 0
    Path(alice["FLEET_DISPATCH_HOME"], "config.toml").write_text("[fleet]\nurl = 1\n")
    for words in (("config", "show"), ("jobs",), ("hosts",), ("doctor",), ("init",)):
        said = say(*words, "--json")
        assert said.code == 2, words
        assert json.loads(said.out)["error"]["problems"][0]["field"] == "fleet.url"


def test_init_accepts_again_what_the_host_lost(say: Say, alice: dict[str, str]) -> None:
    assert say("init", "--host", "DESK", "--lanes", "A", environ=alice).code == 0
    next(Path(alice["FLEET_DISPATCH_HOME"], "keys").glob("grant.*")).unlink()
    assert json.loads(say("init", "--json").out)["made"] == ["grant to this host"]


def test_a_root_that_toml_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="UTF-8"):
        write_host_policy(
            tmp_path / "policy.toml", sender="a.b", roots=["/src/\udcff"], validate="none"
        )
    assert write_host_policy(
        tmp_path / "policy.toml", sender="a.b", roots=['/s "x" \\é'], validate="none"
    )
    policy = parse_policy(tomllib.loads((tmp_path / "policy.toml").read_text()))
    assert policy.of("a.b")[1].repo_roots == ('/s "x" \\é',)
