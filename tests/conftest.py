"""Guards around every test: no real home, no inherited git or fleet settings, no child process and
no worktree left behind, no network beyond loopback. They are always on and have no switch."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.leaks import ProcessMark, describe_and_end, worktrees_of
from tests.support.sandbox_modes import EXERCISED

PROJECT = Path(__file__).resolve().parent.parent

# What decides where git, the agents or we look, or whom they take themselves for.
_SCRUBBED_PREFIXES = ("GIT_", "FLEET_DISPATCH_", "XDG_", "CLAUDE", "CODEX_", "GEMINI_", "AI_AGENT")
_HOME_NAMES = ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA")


# A shared machine has no fixed speed: how long one example takes proves nothing.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    """Close the network of this process for good: an audit hook cannot be taken off. A shell that
    starts the tests in the background has them, and all below them, ignore Ctrl-C: not here."""
    sys.addaudithook(_refuse_far_addresses)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    threading._sys = _PatientSys()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand what was exercised in this worker to the process that prints the summary."""
    handed_over = getattr(session.config, "workeroutput", None)
    if handed_over is not None:
        handed_over["sandbox_modes"] = dict(EXERCISED)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take in what a worker exercised."""
    EXERCISED.update(getattr(node, "workeroutput", {}).get("sandbox_modes", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which sandboxes were really built: an absent one must not be taken for a passed one."""
    built = ", ".join(f"{mode} {count}" for mode, count in sorted(EXERCISED.items()))
    terminalreporter.write_line(f"sandbox modes exercised (runs): {built or 'none was asked for'}")


class _PatientSys:
    """What the threading module knows as `sys`, with a patient `settrace`.

    Coverage has each new thread install its trace function. Python 3.11 refuses that while another
    thread is at it, and the thread that was refused is dead before it began.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(sys, name)

    @staticmethod
    def settrace(function: Any) -> None:
        for _ in range(1_000):
            try:
                sys.settrace(function)
            except RuntimeError:
                time.sleep(0.001)
            else:
                return
        sys.settrace(function)


def _refuse_far_addresses(event: str, arguments: tuple[object, ...]) -> None:
    if event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        address = (arguments[0],)
    else:
        return
    if isinstance(address, tuple) and address and not _is_near(address[0]):
        raise PermissionError(f"a test reached for the network beyond loopback: {address[0]!r}")


def _is_near(host: object) -> bool:
    """Say whether `host` is this machine; None and "" mean every address of it."""
    if isinstance(host, bytes):
        host = host.decode(errors="replace")
    if host in (None, "", "localhost", "::1", "0.0.0.0", "::", socket.gethostname()):
        return True
    return isinstance(host, str) and host.startswith("127.")


@pytest.fixture(scope="session", autouse=True)
def _index_settings_survive_a_new_home() -> None:
    """Keep the person's own pip settings readable: tests that fetch use the index's own client."""
    settings = Path("~/.config/pip/pip.conf").expanduser()
    if settings.is_file() and "PIP_CONFIG_FILE" not in os.environ:
        os.environ["PIP_CONFIG_FILE"] = str(settings)


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test an empty home and an environment without anybody's settings."""
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name.startswith(_SCRUBBED_PREFIXES):
            monkeypatch.delenv(name)
    for name in _HOME_NAMES:
        monkeypatch.setenv(name, str(home))
    return home


@pytest.fixture(autouse=True)
def _nothing_left_running(
    own_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    before = ProcessMark.take()
    yield
    left = before.left_behind(tmp_path_factory.getbasetemp())
    if left:
        pytest.fail(f"the test left processes running:\n{describe_and_end(left)}", pytrace=False)


@pytest.fixture(autouse=True)
def _no_worktree_of_the_project() -> Iterator[None]:
    before = worktrees_of(PROJECT)
    yield
    new = worktrees_of(PROJECT) - before
    if new:
        pytest.fail(f"the test left worktrees of the project: {sorted(new)}", pytrace=False)
