"""What a host watches and which secrets it knows, from its configuration."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from contracts.errors import InvalidRequest
from worker.settings import HostSettings, host_redactor, load_host_settings


def settings(tmp_path: Path, text: str = "") -> HostSettings:
    home = tmp_path / "fleet"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text)
    return load_host_settings(environ={"FLEET_DISPATCH_HOME": str(home), "USER": "ada"})


def test_start_files_keys_agents_settings_and_our_own_files_are_watched(tmp_path: Path) -> None:
    paths = settings(tmp_path).watch_list.paths
    home = os.path.expanduser("~")
    for name in (".bashrc", ".ssh", ".gitconfig", ".config/autostart", ".claude/settings.json"):
        assert os.path.join(home, name) in paths
    for name in ("keys", "policy.toml", "config.toml"):
        assert str(tmp_path / "fleet" / name) in paths
    assert all(os.path.isabs(path) for path in paths)
    assert len(set(paths)) == len(paths)


def test_paths_are_added_and_the_defaults_can_be_taken_away(tmp_path: Path) -> None:
    text = '[watch]\npaths = ["~/.mine", "/etc/thing"]\ndefaults = false\ncheckout = "note"\n'
    watched = settings(tmp_path, text).watch_list
    assert os.path.expanduser("~/.mine") in watched.paths
    assert "/etc/thing" in watched.paths
    assert os.path.expanduser("~/.bashrc") not in watched.paths
    assert watched.checkout_is_noted


@pytest.mark.parametrize("line", ['paths = ["relative/path"]', 'checkout = "never"', "other = 1"])
def test_a_watch_that_would_not_watch_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(InvalidRequest, match="watch"):
        settings(tmp_path, f"[watch]\n{line}\n")


def test_a_host_knows_its_named_secrets_and_its_brokers_password(tmp_path: Path) -> None:
    text = (
        '[secrets]\nnames = ["MY_PIN"]\n[fleet]\nredis_url = "redis://:pass%2Fword-1@127.0.0.1/0"\n'
    )
    redactor = host_redactor(
        settings(tmp_path, text), {"MY_PIN": "pin-pin-pin", "A_TOKEN": "t" * 9}
    )
    for secret in ("pin-pin-pin", "t" * 9, "pass/word-1", "pass%2Fword-1"):
        assert redactor.redact(f"a {secret} b") == "a [redacted] b"
