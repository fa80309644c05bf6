from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from contracts.errors import InvalidRequest, Unavailable
from dispatch.broker_setup import (
    BrokerSetup,
    checked_address,
    config_text,
    find_binary,
    needs_password,
    prepare_broker,
)
from dispatch.commands.broker import _tell
from dispatch.queue import FleetQueue
from tests.dispatch.conftest import Said
from tests.support.broker import free_port

Say = Callable[..., Said]
_CODE = "from dispatch.cli import main; main()"


@contextmanager
def _running(*words: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """Start the verb as its own process; yield it with the document that it printed."""
    process = subprocess.Popen(
        [sys.executable, "-c", _CODE, "broker", "--port", "0", *words, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        lines: list[str] = []
        while not lines or lines[-1] != "}\n":
            line = process.stdout.readline()
            assert line, process.communicate(timeout=10)
            lines.append(line)
        yield process, json.loads("".join(lines))
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)


def _ping(url: str) -> None:
    last = ""
    for _ in range(200):
        try:
            FleetQueue.connect(url).ping()
        except Unavailable as error:
            last = str(error)
        else:
            return
    raise AssertionError(f"the broker did not answer: {last}")


def test_the_verb_becomes_the_server_with_our_configuration(tmp_path: Path) -> None:
    data = tmp_path / "data folder"
    with _running("--data", str(data)) as (process, said):
        _ping(said["url"])
        assert said["pid"] == process.pid
        client = redis.Redis.from_url(said["url"], decode_responses=True)
        info: Any = client.info("server")
        assert info["process_id"] == process.pid
        config: Any = client.config_get()
        assert config["appendonly"] == "yes"
        assert config["appendfsync"] == "everysec"
        assert config["maxmemory-policy"] == "noeviction"
        assert config["bind"] == "127.0.0.1"
        assert config["requirepass"] == ""
        client.set("kept", "1")
        client.close()
        assert stat.S_IMODE(data.stat().st_mode) == 0o700
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
        assert out == ""
        assert "Received SIGTERM" in err  # its log is on stderr
        assert process.returncode == 0
    with _running("--data", str(data)) as (_, said):
        _ping(said["url"])
        client = redis.Redis.from_url(said["url"])
        assert client.get("kept") == b"1"
        client.close()


def test_two_brokers_never_share_one_data_folder(tmp_path: Path, say: Say) -> None:
    with _running("--data", str(tmp_path / "data")) as (_, said):
        _ping(said["url"])
        second = say("broker", "--port", "0", "--data", str(tmp_path / "data"), "--json")
    assert second.code == 2
    assert "another broker uses" in json.loads(second.out)["error"]["message"]


def test_a_password_is_made_once_kept_privately_and_in_no_argument_list(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with _running("--data", str(data), "--password") as (process, said):
        password = (data / "password").read_text().strip()
        assert len(password) >= 32
        assert said["url"] == f"redis://:{password}@127.0.0.1:{said['port']}/0"
        _ping(said["url"])
        with pytest.raises(Unavailable, match="password"):
            FleetQueue.connect(f"redis://127.0.0.1:{said['port']}/0").ping()
        for name in ("cmdline", "environ"):
            assert password.encode() not in Path(f"/proc/{process.pid}/{name}").read_bytes()
        for name in ("password", "valkey.conf"):
            assert stat.S_IMODE((data / name).stat().st_mode) == 0o600
    with _running("--data", str(data), "--password") as (_, again):
        assert again["url"] == f"redis://:***@127.0.0.1:{again['port']}/0"
        assert (data / "password").read_text().strip() == password
        _ping(again["url"].replace("***", password))


def test_the_url_is_printed_once_for_people(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _CODE, "broker", "--port", "0", "--data", str(tmp_path / "d")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    _ping(url)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20)[0] == ""


def test_a_taken_port_is_said_before_anything_starts(tmp_path: Path, say: Say) -> None:
    with _running("--data", str(tmp_path / "a")) as (_, said):
        _ping(said["url"])
        words = ("--port", str(said["port"]), "--data", str(tmp_path / "b"), "--json")
        second = say("broker", *words)
    assert second.code == 2
    assert "cannot listen" in json.loads(second.out)["error"]["message"]


@pytest.mark.parametrize("bind", ["0.0.0.0", "192.168.1.10", "::", "fe80::1"])
def test_an_address_beyond_this_machine_needs_a_password(bind: str) -> None:
    assert needs_password(checked_address(bind))


@pytest.mark.parametrize("bind", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_an_address_of_this_machine_needs_none(bind: str) -> None:
    assert not needs_password(checked_address(bind))


@pytest.mark.parametrize("bind", ["", "example.org", "127.0.0.1 ::1", "1.2.3", "127.0.0.1\nport 1"])
def test_what_is_no_address_is_refused(bind: str) -> None:
    with pytest.raises(InvalidRequest, match="--bind"):
        checked_address(bind)


def _setup(**changes: Any) -> BrokerSetup:
    given = {"bind": "127.0.0.1", "port": 1, "password": "", "data_dir": Path("/d"), **changes}
    return BrokerSetup(binary=Path("/b"), **given)


def test_the_configuration_quotes_what_people_choose() -> None:
    text = config_text(_setup(data_dir=Path('/a "b" \\c'), password="pw"))
    assert 'dir "/a \\"b\\" \\\\c"' in text
    assert 'requirepass "pw"' in text
    with pytest.raises(InvalidRequest, match="--data"):
        config_text(_setup(data_dir=Path("/a\nrequirepass x")))


def test_the_url_names_an_address_that_clients_can_use() -> None:
    assert _setup(bind="::1").url == "redis://[::1]:1/0"
    assert _setup(bind="10.0.0.1", password="pw").url == "redis://:pw@10.0.0.1:1/0"
    assert "0.0.0.0" not in _setup(bind="0.0.0.0").url
    assert "pw9" not in repr(_setup(password="pw9"))


def test_a_machine_without_the_binary_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert os.access(find_binary(), os.X_OK)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Unavailable, match=r"fleet-dispatch\[embedded\]"):
        prepare_broker(tmp_path, bind="127.0.0.1", port=0, wants_password=False)


def test_a_port_of_ones_own_choice_is_used(tmp_path: Path) -> None:
    port = free_port()
    setup = prepare_broker(tmp_path / "d", bind="127.0.0.1", port=port, wants_password=False)
    assert (setup.port, setup.password, setup.is_new_password) == (port, "", False)


def test_beyond_this_machine_the_url_comes_with_a_warning_on_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _tell(_setup(bind="10.0.0.1", password="pw9", is_new_password=True), as_json=False)
    out, err = capsys.readouterr()
    assert out == "redis://:pw9@10.0.0.1:1/0\n"
    assert "no encryption" in err
    assert "/d/password" in err
    assert "pw9" not in err
    _tell(_setup(bind="10.0.0.1", password="pw9"), as_json=True)
    out, _ = capsys.readouterr()
    document = json.loads(out)
    assert document["url"] == "redis://:***@10.0.0.1:1/0"
    assert document["passwordFile"] == "/d/password"
