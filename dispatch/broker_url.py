"""Broker URLs as text: checking them, and showing them without the password. Pure; no Redis."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit, urlunsplit

from contracts.errors import InvalidRequest, Problem

SENTINEL_SCHEMES: Final = ("redis+sentinel", "rediss+sentinel")
TLS_SCHEMES: Final = ("rediss", "rediss+sentinel")
SCHEMES: Final = ("redis", "rediss", "unix", *SENTINEL_SCHEMES)
SENTINEL_PORT: Final = 26_379
_EXAMPLE: Final = (
    "redis://[[user]:password@]host:6379/0, rediss://…, unix:///path or "
    "redis+sentinel://host:26379,host:26379/service/0"
)
_MASK: Final = "***"
_SECRET_QUERY_KEYS: Final = frozenset({"password", "ssl_password", "sentinel_password"})
# What may stand behind `?`. Others would reach the client's inside: its timeouts, its decoding.
_QUERY_KEYS: Final = frozenset({"db", "username", "password"})
_SENTINEL_QUERY_KEYS: Final = frozenset({"sentinel_username", "sentinel_password"})
_TLS_QUERY_KEYS: Final = frozenset(
    {"ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_password"}
    | {"ssl_cert_reqs", "ssl_check_hostname"}
)
_LOOPBACK: Final = re.compile(r"127(\.[0-9]{1,3}){3}|localhost|::1|\[::1\]")
_NODE: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_SENTINEL_PATH: Final = re.compile(r"/[A-Za-z0-9._-]+(/[0-9]*)?")


def checked_broker_url(url: str, field: str) -> str:
    """Return `url` if a client can be built from it.

    Raises InvalidRequest naming `field`; the URL itself is never repeated.
    """
    try:
        parts = urlsplit(url)
        is_complete = _is_complete(parts)
    except ValueError as error:
        raise InvalidRequest([Problem(field, "is not a URL", _EXAMPLE)]) from error
    if parts.scheme not in SCHEMES:
        raise InvalidRequest([Problem(field, "has a scheme that is no broker's", _EXAMPLE)])
    if not is_complete:
        raise InvalidRequest([Problem(field, "is not a broker's URL", _EXAMPLE)])
    _check_options(parts, field)
    return url


def broker_addresses(url: str) -> list[tuple[str, int]]:
    """Return every (host, port) that `url` names: one, or those of the Sentinels; none for a Unix
    socket. The port is 0 where none is given to a plain broker. Raises ValueError for no URL."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return []
    if parts.scheme not in SENTINEL_SCHEMES:
        return [(parts.hostname or "", parts.port or 0)]
    found = []
    for node in parts.netloc.rpartition("@")[2].split(","):
        match = _NODE.fullmatch(node)
        if match is None or int(match[2] or SENTINEL_PORT) > 65_535:
            message = "no address"
            raise ValueError(message)
        found.append((match[1].strip("[]"), int(match[2] or SENTINEL_PORT)))
    return found


def url_secrets(url: str) -> tuple[str, ...]:
    """Return every password that `url` holds, as written and as meant; for blanking them."""
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        return ()
    secrets = [parts.password or "", *(v for k, v in query if k in _SECRET_QUERY_KEYS)]
    return tuple(dict.fromkeys(text for item in secrets if item for text in (item, unquote(item))))


def has_password(url: str) -> bool:
    """Say whether `url` holds a password for the broker, or for its Sentinels."""
    return bool(url_secrets(url))


def with_password(url: str, password: str) -> str:
    """Return `url` with `password` in it; one that has its own keeps it."""
    parts = urlsplit(url)
    if parts.password or dict(parse_qsl(parts.query)).get("password"):
        return url
    login, _, place = parts.netloc.rpartition("@")
    # The colon of an empty password may stand there already.
    netloc = f"{login.partition(':')[0]}:{quote(password, safe='')}@{place}"
    return urlunsplit(parts._replace(netloc=netloc))


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


def _is_complete(parts: SplitResult) -> bool:
    """Say whether the parts name a place. Raises ValueError for a port that is none."""
    if parts.scheme == "unix":
        return bool(parts.path)
    if parts.scheme in SENTINEL_SCHEMES:
        nodes = broker_addresses(urlunsplit(parts))
        is_named = _SENTINEL_PATH.fullmatch(parts.path) is not None
        return is_named and all(port and _is_host(host) for host, port in nodes)
    is_complete = bool(parts.hostname) and parts.port != 0
    is_complete = is_complete and re.fullmatch(r"/?[0-9]*", parts.path) is not None
    return is_complete and _is_host(parts.hostname or "")


def _is_host(name: str) -> bool:
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return True


def _check_options(parts: SplitResult, field: str) -> None:
    known = _QUERY_KEYS
    known |= _TLS_QUERY_KEYS if parts.scheme in TLS_SCHEMES else frozenset()
    known |= _SENTINEL_QUERY_KEYS if parts.scheme in SENTINEL_SCHEMES else frozenset()
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    if not known.issuperset(given):
        remedy = f"known here: {', '.join(sorted(known))}"
        raise InvalidRequest([Problem(field, "has an option that is none", remedy)])
    if re.fullmatch(r"[0-9]*", given.get("db", ""), re.ASCII) is None:
        raise InvalidRequest([Problem(field, "has a db that is no number", "…?db=1")])
