from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import InvalidRequest
from dispatch.config_file import parse_config, read_config_file
from dispatch.settings import find_places, load_settings, wants_traceback


def _home(tmp_path: Path, text: str | None = None) -> dict[str, str]:
    if text is not None:
        (tmp_path / "config.toml").write_text(text)
    return {"FLEET_DISPATCH_HOME": str(tmp_path), "USER": "alice"}


def test_without_a_file_every_value_is_a_default(tmp_path: Path) -> None:
    settings = load_settings(environ=_home(tmp_path))
    assert settings.redis_url == "redis://127.0.0.1:6379/0"
    assert settings.sender_name == "alice"
    assert settings.host.lanes == ()
    assert settings.source_of("fleet.redis_url") == "default"


def test_flag_goes_over_environment_over_file_over_default(tmp_path: Path) -> None:
    environ = _home(tmp_path, '[fleet]\nredis_url = "redis://file:1/0"\n')
    in_file = load_settings(environ=environ)
    environ["FLEET_DISPATCH_REDIS_URL"] = "redis://environment:1/0"
    in_environment = load_settings(environ=environ)
    by_flag = load_settings(environ=environ, flags={"fleet.redis_url": "redis://flag:1/0"})

    assert (in_file.redis_url, in_file.source_of("fleet.redis_url")) == (
        "redis://file:1/0",
        f"file {tmp_path / 'config.toml'}",
    )
    assert in_environment.redis_url == "redis://environment:1/0"
    assert in_environment.source_of("fleet.redis_url") == "environment FLEET_DISPATCH_REDIS_URL"
    assert by_flag.redis_url == "redis://flag:1/0"
    assert by_flag.source_of("fleet.redis_url") == "flag"


def test_a_flag_that_was_not_given_changes_nothing(tmp_path: Path) -> None:
    settings = load_settings(environ=_home(tmp_path), flags={"host.name": None})
    assert settings.source_of("host.name") == "default"


@pytest.mark.parametrize(
    ("text", "key", "known"),
    [
        ('[fleet]\nredis_urll = "x"\n', "fleet.redis_urll", "redis_url"),
        ("[machines]\n", "machines", "repo_paths"),
        (
            '[agents.codex]\ncmd = ["codex"]\n',
            "agents.codex.cmd",
            "command, env, extra_args, flags",
        ),
        ("[validation]\nlimit = 1\n", "validation.limit", "timeout_s"),
    ],
)
def test_an_unknown_key_is_an_error_naming_key_file_and_known_keys(
    tmp_path: Path, text: str, key: str, known: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        load_settings(environ=_home(tmp_path, text))
    (problem,) = refused.value.problems
    assert problem.field == key
    assert str(tmp_path / "config.toml") in problem.message
    assert known in problem.remedy


def test_all_wrong_values_of_a_file_are_named_at_once(tmp_path: Path) -> None:
    text = '[host]\nconcurrency = true\nlanes = "A"\n[worktree]\ntimeout_s = 0\n'
    with pytest.raises(InvalidRequest) as refused:
        load_settings(environ=_home(tmp_path, text))
    fields = {problem.field for problem in refused.value.problems}
    assert fields == {"host.concurrency", "host.lanes", "worktree.timeout_s"}


def test_a_detector_that_would_detect_nothing_is_named_by_its_place(tmp_path: Path) -> None:
    good = load_settings(environ=_home(tmp_path, '[validation]\ndetectors = ["pytest", "npm"]\n'))
    assert good.validation.detectors == ("pytest", "npm")
    with pytest.raises(InvalidRequest) as refused:
        load_settings(environ=_home(tmp_path, '[validation]\ndetectors = ["npm", "pytst"]\n'))
    (problem,) = refused.value.problems
    assert problem.field == "validation.detectors.1"
    assert "npm, pytest, cargo, go, make" in problem.message


def test_a_bad_value_is_never_repeated(tmp_path: Path) -> None:
    text = '[fleet]\nredis_url = "http://:hunter2@host"\n'
    with pytest.raises(InvalidRequest) as refused:
        load_settings(environ=_home(tmp_path, text))
    assert "fleet.redis_url" in str(refused.value)
    assert str(tmp_path / "config.toml") in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("text", ["[fleet", "x = 1979-05-27T07:32:00Z\n[", "\x00"])
def test_a_file_that_is_not_toml_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        load_settings(environ=_home(tmp_path, text))
    assert str(tmp_path / "config.toml") in str(refused.value)


def test_a_file_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"[fleet]\n# \xff\n")
    with pytest.raises(InvalidRequest, match="UTF-8"):
        read_config_file(path)


def test_a_folder_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(InvalidRequest, match="cannot be read"):
        load_settings(environ=_home(tmp_path))


def test_names_from_flags_are_checked_with_their_source(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest) as refused:
        load_settings(environ=_home(tmp_path), flags={"host.name": "a/b", "host.lanes": ("x y",)})
    assert [problem.field for problem in refused.value.problems] == ["host.name", "host.lanes"]
    assert all("from flag" in problem.message for problem in refused.value.problems)


def test_a_flag_of_the_wrong_type_is_named_with_its_source(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest) as refused:
        load_settings(environ=_home(tmp_path), flags={"host.concurrency": 0})
    assert "host.concurrency" in str(refused.value)
    assert "flag" in str(refused.value)


def test_a_login_name_is_made_into_a_senders_name(tmp_path: Path) -> None:
    environ = {**_home(tmp_path), "USER": "DOMAIN\\Ann Lee"}
    assert load_settings(environ=environ).sender_name == "DOMAIN-Ann-Lee"


def test_without_a_login_variable_the_user_database_is_asked(tmp_path: Path) -> None:
    settings = load_settings(environ={"FLEET_DISPATCH_HOME": str(tmp_path)})
    assert settings.sender_name


def test_paths_of_another_system_are_one_value(tmp_path: Path) -> None:
    text = '[repo_paths]\n"C:\\\\src.old" = "/home/me/src"\n'
    settings = load_settings(environ=_home(tmp_path, text))
    assert settings.repo_paths == {"C:\\src.old": "/home/me/src"}
    assert settings.source_of("repo_paths").startswith("file ")


def test_the_home_variable_puts_everything_under_one_root(tmp_path: Path) -> None:
    places = find_places({"FLEET_DISPATCH_HOME": str(tmp_path)})
    assert places.config_file == tmp_path / "config.toml"
    assert places.keys_dir == tmp_path / "keys"
    assert places.journal_file == tmp_path / "state" / "journal.sqlite3"


def test_a_relative_home_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="FLEET_DISPATCH_HOME"):
        find_places({"FLEET_DISPATCH_HOME": "here"})


def test_xdg_folders_are_followed_and_relative_ones_ignored() -> None:
    environ = {"HOME": "/home/me", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "state"}
    places = find_places(environ)
    assert places.config_dir == Path("/c/fleet-dispatch")
    assert places.state_dir == Path("/home/me/.local/state/fleet-dispatch")


def test_on_windows_the_profile_folders_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    places = find_places({"APPDATA": "/roaming", "LOCALAPPDATA": "/local"})
    assert places.config_dir == Path("/roaming/fleet-dispatch")
    assert places.state_dir == Path("/local/fleet-dispatch")
    assert find_places({}).config_dir.parts[-3:] == ("AppData", "Roaming", "fleet-dispatch")


def test_the_settings_are_frozen(tmp_path: Path) -> None:
    settings = load_settings(environ=_home(tmp_path))
    with pytest.raises(ValueError, match="frozen"):
        settings.host = settings.host


def test_a_traceback_is_wanted_only_on_purpose() -> None:
    assert wants_traceback({"FLEET_DISPATCH_DEBUG": "1"})
    assert not wants_traceback({"FLEET_DISPATCH_DEBUG": "0"})
    assert not wants_traceback({})


@given(st.text(max_size=200))
def test_any_text_is_a_configuration_or_a_named_problem(text: str) -> None:
    with contextlib.suppress(InvalidRequest):
        parse_config(text, "config.toml")


def test_the_sandbox_of_one_process_can_be_named_in_its_environment(tmp_path: Path) -> None:
    environ = _home(tmp_path, '[sandbox]\nmode = "landlock"\n')
    assert load_settings(environ=environ).sandbox.mode == "landlock"
    named = load_settings(environ={**environ, "FLEET_DISPATCH_SANDBOX": "none"})
    assert named.sandbox.mode == "none"
    assert named.source_of("sandbox.mode") == "environment FLEET_DISPATCH_SANDBOX"
    with pytest.raises(InvalidRequest, match="FLEET_DISPATCH_SANDBOX"):
        load_settings(environ={**environ, "FLEET_DISPATCH_SANDBOX": "moat"})
