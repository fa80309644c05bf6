"""Debian's redis-server for tests of what the embedded broker lacks: roles, TLS, Sentinel.

Each server is a process on a free loopback port, ended by its pid. Certificates are made anew for
every run and are good for an hour.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.broker import Broker
from tests.support.fleet import wait_until
from tests.support.source_tree import PROJECT
from tests.support.tools import require_tool

ROLES = ("sender", "listener", "observer", "governor")
ROLES_FILE = PROJECT / "ops" / "redis" / "users.acl"
CONF_FILE = PROJECT / "ops" / "redis" / "redis.conf"
_DESK = "desk"
# What a server says of a right that is missing inside a script, and of DEBUG, which nobody has.
_REFUSALS = ("can't run this command", "can't access at least one of the keys", "not allowed")


class RedisServer(Broker):
    """A redis-server with the roles of ops/redis/users.acl, each with a password of its own, and a
    user of the tests who may do anything."""

    def __init__(
        self, folder: Path, *, extra: Sequence[str] = (), roles: bool = True, tls: bool = False
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._roles = roles
        self._tls = tls
        lines = [f'include "{CONF_FILE}"'] if roles else []
        if roles:
            (folder / "users.acl").write_text(_with_passwords(ROLES_FILE.read_text()))
            lines.append(f'aclfile "{folder}/users.acl"')
        socket = [f"unixsocket {self.socket}", "unixsocketperm 700"] if tls else []
        super().__init__(folder, extra=[*lines, *socket, *extra])

    @property
    def socket(self) -> Path:
        """Return the path of its Unix socket, which it has beside TLS."""
        return self.folder / "s"

    @property
    def port_lines(self) -> tuple[str, ...]:
        return ("port 0", f"tls-port {self.port}") if self._tls else super().port_lines

    @property
    def program(self) -> str:
        return require_tool("redis-server")

    @property
    def desk_url(self) -> str:
        return self.url_of(_DESK) if self._roles else self.url

    @property
    def url(self) -> str:
        """Return the URL of an honest sender."""
        return self.url_of("sender") if self._roles else super().url

    def url_of(self, role: str) -> str:
        """Return the URL with which `role` comes; over the socket beside TLS."""
        if self._tls:
            return f"unix://{role}:{password_of(role)}@{self.socket}"
        return f"redis://{role}:{password_of(role)}@127.0.0.1:{self.port}/0"


def password_of(role: str) -> str:
    return f"{role}-secret-word"


def _with_passwords(text: str) -> str:
    lines = []
    for line in text.splitlines():
        name = line.split()[1]
        lines.append(line if name == "default" else f"{line} >{password_of(name)}")
    return "\n".join([*lines, f"user {_DESK} on >{password_of(_DESK)} ~* &* +@all", ""])


@contextmanager
def running_redis(
    folder: Path, *, extra: Sequence[str] = (), roles: bool = True, tls: bool = False
) -> Iterator[RedisServer]:
    """Yield a started RedisServer whose data is in `folder`; stopped by its pid at the end."""
    server = RedisServer(folder, extra=extra, roles=roles, tls=tls)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@dataclass(frozen=True)
class Certificates:
    """The files of a certificate authority, a server and a client."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.crt"

    def pair(self, name: str) -> tuple[Path, Path]:
        return self.folder / f"{name}.crt", self.folder / f"{name}.key"


def make_certificates(folder: Path) -> Certificates:
    """Make an authority, and a server and a client that it vouches for."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Certificates(folder)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _name("a fleet's own authority")
    ca = _certificate(ca_name, ca_name, ca_key, ca_key, is_ca=True)
    made.ca.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    for name in ("server", "client"):
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(_name(name), ca_name, key, ca_key, is_ca=False)
        path, key_path = made.pair(name)
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_path.touch(mode=0o600)
        key_path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
    return made


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    is_ca: bool,
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    names: list[x509.GeneralName] = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )


class Sentinel(Broker):
    """One Sentinel, a redis-server of its own kind."""

    def __init__(self, folder: Path, *, extra: Sequence[str] = ()) -> None:
        super().__init__(folder)
        self._lines = ["bind 127.0.0.1", "daemonize no", f"dir {folder}", *extra]

    @property
    def program(self) -> str:
        return require_tool("redis-server")

    @property
    def arguments(self) -> tuple[str, ...]:
        return ("--sentinel",)


@dataclass
class WatchedPair:
    """A primary and its replica, watched by three Sentinels."""

    primary: RedisServer
    replica: RedisServer
    sentinels: list[Sentinel]
    service: str = "fleet"

    @property
    def url(self) -> str:
        nodes = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{nodes}/{self.service}/0"

    def primary_port(self) -> int:
        """Return the port of whoever the first Sentinel calls primary."""
        with self.sentinels[0].client() as client:
            _, port = client.sentinel_get_master_addr_by_name(self.service)
        return int(port)

    def replicates(self) -> bool:
        """Say whether the replica holds all that the primary has, and every Sentinel sees both."""
        with self.primary.client() as one:
            told = one.info("replication")
        if told["connected_slaves"] != 1 or told["slave0"]["state"] != "online":
            return False
        return all(self._sees(sentinel) for sentinel in self.sentinels)

    def _sees(self, sentinel: Sentinel) -> bool:
        with sentinel.client() as client:
            state = client.sentinel_master(self.service)
        return bool(state["num-slaves"] == 1 and state["num-other-sentinels"] == 2)


@contextmanager
def watched_pair(folder: Path) -> Iterator[WatchedPair]:
    """Yield a primary, a replica and three Sentinels that agree on who is who."""
    with ExitStack() as stack:
        primary = stack.enter_context(running_redis(folder / "one", roles=False))
        replica = stack.enter_context(
            running_redis(
                folder / "two", roles=False, extra=[f"replicaof 127.0.0.1 {primary.port}"]
            )
        )
        pair = WatchedPair(primary, replica, [])
        watch = [
            f"sentinel monitor {pair.service} 127.0.0.1 {primary.port} 2",
            f"sentinel down-after-milliseconds {pair.service} 1000",
            f"sentinel failover-timeout {pair.service} 5000",
        ]
        for number in range(3):
            sentinel = Sentinel(folder / f"sentinel-{number}", extra=watch)
            stack.callback(sentinel.stop)
            sentinel.start()
            pair.sentinels.append(sentinel)
        wait_until(pair.replicates, "the replica has everything, and all see it", 90)
        yield pair


def refuses(client: redis.Redis, *command: str | bytes) -> bool:
    """Say whether the server refuses `command`, or what a script calls, for want of the right."""
    try:
        client.execute_command(*command)
    except redis.exceptions.NoPermissionError:
        return True
    except redis.ResponseError as error:
        return any(words in str(error) for words in _REFUSALS)
    return False
