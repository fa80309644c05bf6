from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import InvalidRequest
from dispatch.broker_url import (
    broker_addresses,
    checked_broker_url,
    has_password,
    is_loopback,
    masked_url,
    url_secrets,
    with_password,
)

_SECRETS = st.text("abcdefghijklmnopqrstuvwxyzABC0123456789-_~!$&'()*+,;=%:", min_size=9).map(
    lambda text: f"Zq9{text}"
)


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1:6379/0",
        "rediss://user:pw@example.net/1",
        "redis://:pw@[::1]:7000",
        "unix:///run/valkey.sock",
        "redis://localhost",
        "redis://localhost?db=2&password=x",
        "rediss://localhost?ssl_ca_certs=/etc/ca.pem&ssl_cert_reqs=required",
        "redis+sentinel://127.0.0.1:26379,127.0.0.1:26380/fleet/0",
        "redis+sentinel://user:pw@one,[::1]:7,two:9/fleet?sentinel_password=x&db=1",
        "rediss+sentinel://one/fleet/1?ssl_ca_certs=/etc/ca.pem",
    ],
)
def test_a_brokers_url_is_accepted(url: str) -> None:
    assert checked_broker_url(url, "redis_url") == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:6379",
        "http://127.0.0.1",
        "redis://",
        "redis://host:99999",
        "redis://host:port",
        "redis://[::1",
        "redis://host/notanumber",
        "unix://",
        "redis://a..b/0",
        "redis://host?db=x",
        "redis://host/0?foo=bar",
        "redis://host/0?socket_timeout=abc",
        "redis://host/0?decode_responses=true",
        "redis://host/0?ssl_ca_certs=/etc/ca.pem",
        "redis://host/0?sentinel_password=x",
        "redis+sentinel:///fleet/0",
        "redis+sentinel://one,,two/fleet",
        "redis+sentinel://one:1,two:99999/fleet",
        "redis+sentinel://one:0/fleet",
        "redis+sentinel://one:1",
        "redis+sentinel://one:1/",
        "redis+sentinel://one:1/fleet/x",
        "redis+sentinel://one/fleet/0?ssl_ca_certs=/etc/ca.pem",
    ],
)
def test_what_is_no_brokers_url_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        checked_broker_url(url, "fleet.redis_url")
    assert refused.value.problems[0].field == "fleet.redis_url"
    assert not url or url not in refused.value.problems[0].message


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("redis://:hunter2@host:1/0", "redis://:***@host:1/0"),
        ("rediss://bob:hunter2@host/0", "rediss://bob:***@host/0"),
        ("redis://bob@host/0", "redis://bob@host/0"),
        ("redis://host/0?password=hunter2&db=1", "redis://host/0?password=***&db=1"),
        ("unix:///run/v.sock", "unix:///run/v.sock"),
        (
            "redis+sentinel://u:hunter2@a:1,b:2/s/0?sentinel_password=hunter2",
            "redis+sentinel://u:***@a:1,b:2/s/0?sentinel_password=***",
        ),
        ("unix://bob:hunter2@/run/v.sock", "unix://bob:***@/run/v.sock"),
    ],
)
def test_a_password_is_masked_and_the_rest_stays_readable(url: str, shown: str) -> None:
    assert masked_url(url) == shown


@given(_SECRETS)
def test_no_password_survives_masking(secret: str) -> None:
    for url in (
        f"redis://:{secret}@host:1/0",
        f"redis://u:{secret}@host/0",
        f"redis+sentinel://u:{secret}@host:1,host:2/s/0",
    ):
        assert secret not in masked_url(url)
        assert secret in url_secrets(url)


@pytest.mark.parametrize(
    "url",
    ["redis://h:1/0", "redis://u@h/0", "redis://u:@h/0", "unix:///run/s", "redis+sentinel://a,b/s"],
)
@given(password=st.text(min_size=1))
def test_a_password_that_is_put_into_a_url_is_found_there_again(url: str, password: str) -> None:
    whole = with_password(url, password)
    assert checked_broker_url(whole, "url") == whole
    assert password in url_secrets(whole)
    assert with_password(whole, "another") == whole
    assert not has_password(url)
    assert broker_addresses(whole) == broker_addresses(url)


def test_a_password_among_the_options_is_one_too() -> None:
    assert url_secrets("redis://h/0?password=one&ssl_password=t%20wo") == ("one", "t wo")
    assert with_password("redis://h/0?password=one", "two") == "redis://h/0?password=one"
    assert url_secrets("redis://[/0") == ()


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("redis://h/0", [("h", 0)]),
        ("unix:///run/s", []),
        ("redis+sentinel://a,[::1]:7/s", [("a", 26_379), ("::1", 7)]),
    ],
)
def test_the_addresses_of_a_url_are_read(url: str, addresses: list[tuple[str, int]]) -> None:
    assert broker_addresses(url) == addresses


@given(st.text())
def test_masking_takes_any_text(text: str) -> None:
    assert isinstance(masked_url(text), str)


def test_loopback_is_told_from_other_addresses() -> None:
    assert all(is_loopback(item) for item in ("127.0.0.1", "127.0.0.2", "::1", "localhost"))
    assert not any(is_loopback(item) for item in ("0.0.0.0", "::", "192.168.1.2", "127.evil.org"))
