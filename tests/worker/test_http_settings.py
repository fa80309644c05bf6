"""What a door is set to: refused with words before anything listens."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from contracts.errors import InvalidRequest
from dispatch.config_http import HttpSection
from tests.support.certificates import make_certificate
from worker.http.gate import door_names, host_name
from worker.http.settings import http_door_settings, parse_bind
from worker.http.tls import load_tls


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"bind": "0.0.0.0:1"}, "has no TLS"),
        ({"bind": "gamingpc.lan:1"}, "has no TLS"),
        ({"bind": "0.0.0.0:1", "plain_beyond_loopback": True}, "no name that a sender uses"),
        ({"bind": "[::]:1", "tls_cert": "c", "tls_key": "k"}, "no name that a sender uses"),
        ({"bind": "::1:1"}, "is not HOST:PORT"),
        ({"bind": "127.0.0.1:65536"}, "is not HOST:PORT"),
        ({"bind": ":8460"}, "is not HOST:PORT"),
    ],
)
def test_a_door_that_nobody_could_use_or_everybody_read_is_refused(
    section: dict[str, object], said: str
) -> None:
    with pytest.raises(InvalidRequest, match=said):
        http_door_settings(HttpSection.model_validate(section))


def test_a_door_at_all_addresses_has_the_names_that_are_given() -> None:
    section = HttpSection(
        bind="[::]:1", allowed_hosts=("Gamingpc.lan",), plain_beyond_loopback=True
    )
    settings = http_door_settings(section)
    assert settings is not None
    assert (settings.bind_host, settings.is_plain_and_open) == ("::", True)
    assert "Gamingpc.lan" in door_names(settings.bind_host, settings.allowed_hosts)
    assert "localhost" not in door_names(settings.bind_host, settings.allowed_hosts)
    assert parse_bind("[::1]:8460") == ("::1", 8460)
    assert host_name(b"[::1]:8460") == "[::1]"
    assert http_door_settings(HttpSection()) is None


def test_a_key_behind_a_passphrase_is_refused_and_nobody_is_asked_for_it(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path, "127.0.0.1")
    assert load_tls(str(cert), str(key)) is not None
    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    key.write_bytes(
        loaded.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"a passphrase"),
        )
    )
    with pytest.raises(InvalidRequest, match="passphrase"):
        load_tls(str(cert), str(key))
    for odd in ("~nobody-of-that-name/key.pem", "a\0b", str(tmp_path / "none.pem")):
        with pytest.raises(InvalidRequest, match="cannot be used"):
            load_tls(str(cert), odd)
