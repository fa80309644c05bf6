"""What one HTTP door is set to: an address that was thought about, and how many may knock."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

from contracts.errors import InvalidRequest, Problem
from dispatch.config_http import HttpSection

_ANY_ADDRESS: Final = ("0.0.0.0", "::")  # noqa: S104 - told from others, never a default


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpDoorSettings:
    """The settings of a door. `bind` is HOST:PORT as it was given."""

    bind: str
    bind_host: str
    bind_port: int
    tls_cert: str
    tls_key: str
    allowed_hosts: tuple[str, ...]
    max_connections: int
    is_plain_and_open: bool  # no TLS, and not on loopback: on purpose


def http_door_settings(section: HttpSection) -> HttpDoorSettings | None:
    """Return the settings of the door, None where none is asked for.

    Raises InvalidRequest for an address that is none, for one beyond this machine without TLS,
    unless that is wanted by name, and for all addresses where no name for the door is given.
    """
    if not section.bind:
        return None
    host, port = parse_bind(section.bind)
    is_plain = not section.tls_cert and not section.tls_key
    is_open = is_plain and not _is_loopback(host)
    if is_open and not section.plain_beyond_loopback:
        remedy = "give --http-tls-cert and --http-tls-key, bind to 127.0.0.1, or, behind a proxy"
        raise InvalidRequest(
            [
                Problem(
                    "http.bind",
                    f"{section.bind} is reachable from other machines and has no TLS",
                    f"{remedy} or in a tunnel of yours, set [http] plain_beyond_loopback",
                )
            ]
        )
    if host in _ANY_ADDRESS and not section.allowed_hosts:
        remedy = 'say under which: [http] allowed_hosts = ["gamingpc.lan"]'
        problem = Problem("http.bind", f"{section.bind} is no name that a sender uses", remedy)
        raise InvalidRequest([problem])
    return HttpDoorSettings(
        bind=section.bind,
        bind_host=host,
        bind_port=port,
        tls_cert=section.tls_cert,
        tls_key=section.tls_key,
        allowed_hosts=section.allowed_hosts,
        max_connections=section.max_connections,
        is_plain_and_open=is_open,
    )


def parse_bind(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`; an IPv6 address stands in brackets.

    Raises InvalidRequest otherwise.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        problem = Problem("http.bind", "is not HOST:PORT", "for example 127.0.0.1:8460")
        raise InvalidRequest([problem])
    return host, int(port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name of this machine: others may know it as well
