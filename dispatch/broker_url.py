"""Broker URLs as text: checking them, and showing them without the password. Pure; no Redis."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit, urlunsplit

from contracts.errors import InvalidRequest, Problem

SCHEMES: Final = ("redis", "rediss", "unix")
_MASK: Final = "***"
_SECRET_QUERY_KEYS: Final = frozenset({"password", "ssl_password"})
# What may stand behind `?`. Others would reach the client's inside: its timeouts, its decoding.
_QUERY_KEYS: Final = frozenset({"db", "username", "password"})
_TLS_QUERY_KEYS: Final = frozenset(
    {"ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_password"}
    | {"ssl_cert_reqs", "ssl_check_hostname"}
)
_LOOPBACK: Final = re.compile(r"127(\.[0-9]{1,3}){3}|localhost|::1|\[::1\]")


def checked_broker_url(url: str, field: str) -> str:
    """Return `url` if a client can be built from it.

    Raises InvalidRequest naming `field`; the URL itself is never repeated.
    """
    example = "redis://[[user]:password@]host:6379/0, rediss://… or unix:///path"
    try:
        parts = urlsplit(url)
        port_is_read = parts.port
    except ValueError as error:
        raise InvalidRequest([Problem(field, "is not a URL", example)]) from error
    if parts.scheme not in SCHEMES:
        raise InvalidRequest([Problem(field, "has a scheme that is no broker's", example)])
    if parts.scheme == "unix":
        is_complete = bool(parts.path)
    else:
        is_complete = bool(parts.hostname) and port_is_read != 0
        is_complete = is_complete and re.fullmatch(r"/?[0-9]*", parts.path) is not None
    if not is_complete or not _is_host(parts.hostname or ""):
        raise InvalidRequest([Problem(field, "is not a broker's URL", example)])
    _check_options(parts, field)
    return url


def _is_host(name: str) -> bool:
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return True


def _check_options(parts: SplitResult, field: str) -> None:
    known = _QUERY_KEYS | (_TLS_QUERY_KEYS if parts.scheme == "rediss" else frozenset())
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    if not known.issuperset(given):
        remedy = f"known here: {', '.join(sorted(known))}"
        raise InvalidRequest([Problem(field, "has an option that is none", remedy)])
    if re.fullmatch(r"[0-9]*", given.get("db", ""), re.ASCII) is None:
        raise InvalidRequest([Problem(field, "has a db that is no number", "…?db=1")])


def masked_url(url: str) -> str:
    """Return `url` with every password replaced by `***`; safe for messages and logs."""
    try:
        parts = urlsplit(url)
        login, at, place = parts.netloc.rpartition("@")
        query = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        return f"({_MASK})"
    if at and ":" in login:
        login = f"{login.partition(':')[0]}:{_MASK}"
    shown = "&".join(
        f"{quote(key)}={_MASK if key in _SECRET_QUERY_KEYS else quote(value)}"
        for key, value in query
    )
    masked = urlunsplit((parts.scheme, f"{login}{at}{place}", parts.path, shown, ""))
    return masked if parts.netloc else masked.replace("unix:/", "unix:///", 1)


def is_loopback(address: str) -> bool:
    """Say whether a bind address or host name stays on this machine."""
    return _LOOPBACK.fullmatch(address) is not None
