"""The broker's password from a file of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.errors import InvalidRequest
from dispatch.broker_password import url_with_password_of
from dispatch.private_files import write_private_file
from dispatch.settings import load_settings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    write_private_file(path, b"p@ss/w:rd\n", replace=False)
    return path


def test_the_password_of_a_file_stands_in_the_url_of_the_settings_alone(
    file: Path, own_home: Path
) -> None:
    config = own_home / "config.toml"
    text = f'[fleet]\nredis_url = "redis://alice@h:1/0"\npassword_file = "{file}"\n'
    write_private_file(config, text.encode(), replace=False)
    environ = {"FLEET_DISPATCH_HOME": str(own_home), "HOME": str(own_home)}
    settings = load_settings(environ=environ)
    assert settings.redis_url == "redis://alice:p%40ss%2Fw%3Ard@h:1/0"
    assert settings.source_of("fleet.redis_url") == f"file {config}"


def test_a_url_that_has_a_password_keeps_it(file: Path) -> None:
    assert url_with_password_of("redis://:other@h/0", str(file)) == "redis://:other@h/0"


def test_what_is_no_url_is_left_to_the_check_of_urls(file: Path) -> None:
    assert url_with_password_of("redis://[", str(file)) == "redis://["


def test_a_file_that_others_can_read_is_refused(file: Path) -> None:
    file.chmod(0o644)
    with pytest.raises(InvalidRequest, match="password_file"):
        url_with_password_of("redis://h/0", str(file))


@pytest.mark.parametrize("content", [b"", b"\n", b"one\ntwo\n", b"\xff\xfe"])
def test_a_file_without_a_line_of_text_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "password"
    write_private_file(path, content, replace=False)
    with pytest.raises(InvalidRequest, match="password_file"):
        url_with_password_of("redis://h/0", str(path))


@pytest.mark.parametrize("path", ["relative", "/nowhere/at/all"])
def test_a_file_that_is_not_there_is_refused(path: str) -> None:
    with pytest.raises(InvalidRequest, match="password_file"):
        url_with_password_of("redis://h/0", path)
