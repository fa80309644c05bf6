"""`policy show` and `policy check`: the rules that decide, asked before anything is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dispatch.private_files import make_private_folder, write_private_file
from worker.commands.policy import command

POLICY = """
[senders.alice]
kinds = ["run_agent", "ping"]
repo_roots = ["{root}"]
validate = "named"
concurrency = 1

[senders."*"]

[validators]
unit = ["pytest", "-q"]
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "fleet"
    make_private_folder(home)
    text = POLICY.replace("{root}", str(tmp_path / "src"))
    write_private_file(home / "policy.toml", text.encode(), replace=False)
    write_private_file(
        home / "config.toml", b'[host]\nname = "A"\nlanes = ["MAIN"]\n', replace=False
    )
    (tmp_path / "src" / "app").mkdir(parents=True)
    monkeypatch.setenv("FLEET_DISPATCH_HOME", str(home))
    return tmp_path / "src"


def check(root: Path, *words: str, **fields: Any) -> Result:
    honest = {"agent": "codex", "task": "t", "repo": str(root / "app"), "ticket": "T-1"}
    payload = fields.pop("payload", None)
    text = json.dumps({**honest, **fields} if payload is None else payload)
    words = ("check", "--payload-file", "-", *words)
    return CliRunner().invoke(command, words, input=text)


def test_an_allowed_job_is_exit_0_and_every_rule_says_yes(root: Path) -> None:
    said = check(root, "--sender", "alice", "--json", validateCommand="unit")
    assert said.exit_code == 0, said.output
    told = json.loads(said.stdout)
    assert (told["allowed"], told["section"], told["aud"]) == (True, "alice", "host:A")
    assert all(rule["allows"] and rule["why"] for rule in told["rules"])
    assert "unit" in next(x["why"] for x in told["rules"] if x["rule"] == "validate_command")


def test_a_refused_job_is_exit_2_and_each_no_has_its_remedy(root: Path) -> None:
    (root / "link").symlink_to("/")
    asked = {"repo": str(root / "link"), "validateCommand": "make", "timeoutSec": 1}
    said = check(root, "--sender", "alice", "--json", **asked)
    assert said.exit_code == 2
    told = json.loads(said.stdout)
    refusing = {rule["rule"]: rule for rule in told["rules"] if not rule["allows"]}
    assert set(refusing) == {"repo_root", "validate_command"}
    assert '[senders."alice"]' in refusing["repo_root"]["remedy"]
    assert "[validators]" in refusing["validate_command"]["remedy"]
    as_text = check(root, "--sender", "alice", **asked)
    assert as_text.exit_code == 2
    assert "NO" in as_text.stdout
    assert 'refused: [senders."alice"] holds' in as_text.stdout


def test_other_kinds_lanes_and_senders_are_asked_about_alike(root: Path) -> None:
    ping = ("--kind", "ping", "--aud", "lane", "--json")
    allowed = check(root, "--sender", "alice", *ping, payload={})
    assert json.loads(allowed.stdout)["aud"] == "lane:MAIN"
    stranger = check(root, "--sender", "bob", *ping, payload={})
    assert stranger.exit_code == 2
    assert json.loads(stranger.stdout)["section"] == "*"
    assert check(root, "--sender", "alice", "--kind", "mail", payload={}).exit_code == 2
    assert check(root, "--sender", "alice", payload={"agent": "codex"}).exit_code == 2
    assert check(root, "--sender", "a b", payload={}).exit_code == 2


def test_the_rights_are_shown_with_their_defaults(root: Path) -> None:
    shown = CliRunner().invoke(command, ["show", "--json"])
    told = json.loads(shown.stdout)
    assert set(told["senders"]) == {"alice", "*"}
    assert told["senders"]["alice"]["repo_roots"] == [str(root)]
    assert told["senders"]["alice"]["validate"] == "named"
    assert told["validators"] == {"unit": ["pytest", "-q"]}
    text = CliRunner().invoke(command, ["show", "--sender", "bob"]).stdout
    assert "run_agent" in text
    assert "alice" not in text
