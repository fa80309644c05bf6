"""Where a host's door is: a URL without tricks, and whom to trust for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from contracts.errors import InvalidRequest, Problem, Refused
from contracts.ids import is_name

if TYPE_CHECKING:
    from dispatch.config_http import HostSectionOfSender

_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class DoorAddress:
    """A door. `cacert` is a PEM file of authorities, "" for the system's; `name` is the host's,
    "" where only an address was given."""

    url: str
    host: str
    port: int
    is_tls: bool
    cacert: str = ""
    name: str = ""


def parse_door_url(url: str, *, cacert: str = "", name: str = "") -> DoorAddress:
    """Return the door at `url`: http or https, a host, perhaps a port, and nothing else.

    Raises InvalidRequest otherwise; the message does not repeat what may be a password.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        parts, host, port = urlsplit(""), "", None
    extra = parts.username or parts.password or parts.query or parts.fragment
    if parts.scheme not in _PORTS or not host or extra or parts.path not in ("", "/"):
        problem = Problem("target", "is no address of a door", "https://HOST:PORT, nothing else")
        raise InvalidRequest([problem])
    is_tls = parts.scheme == "https"
    if cacert and not is_tls:
        problem = Problem("cacert", "needs an https address", "leave it out, or use https")
        raise InvalidRequest([problem])
    number = _PORTS[parts.scheme] if port is None else port
    shown = f"[{host}]" if ":" in host else host
    return DoorAddress(f"{parts.scheme}://{shown}:{number}", host, number, is_tls, cacert, name)


def find_door(
    target: str, hosts: Mapping[str, HostSectionOfSender], *, cacert: str = ""
) -> DoorAddress:
    """Return the door that `target` means: a host's name in config.toml, or a URL. A URL that
    stands there is that host's.

    Raises InvalidRequest for neither, Refused (`no_address`) for a name without an address.
    """
    if "://" not in target:
        if not is_name(target):
            problem = Problem("target", "is neither a name nor a URL", "NAME or https://HOST:PORT")
            raise InvalidRequest([problem])
        section = hosts.get(target)
        if section is None:
            raise Refused(
                f"no address is known for host {target}",
                code="no_address",
                remedy=f"set [hosts.{target}] url in config.toml, or name the URL itself",
            )
        return parse_door_url(section.url, cacert=cacert or section.cacert, name=target)
    asked = parse_door_url(target, cacert=cacert)
    for name, section in hosts.items():
        known = parse_door_url(section.url, name=name)
        if known.url == asked.url:
            return parse_door_url(target, cacert=cacert or section.cacert, name=name)
    return asked
