"""Agents and git: are they on PATH, and new enough."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from runagent.process import EndState, ProcessSpec, run
from worker.diagnosis.finding import Finding, Machine, fails, holds, warns
from worker.probes import Probes

# GIT_CONFIG_GLOBAL and GIT_CONFIG_SYSTEM came with 2.32: an older git reads everybody's settings in
# spite of them, and those can name programs.
GIT_MINIMUM: Final = (2, 32)
# What everything here was built and tried with.
_GIT_TRIED: Final = (2, 39)
_LIMIT_S: Final = 20.0
_VERSION: Final = re.compile(r"(\d+)\.(\d+)(?:\.\d+)?")


def check_agents(machine: Machine) -> Iterator[Finding]:
    """Ask each agent for its version."""
    with tempfile.TemporaryDirectory(prefix="fleet-dispatch-") as folder:
        probes = Probes(
            machine.runner, machine.host.presets, machine.environment, folder=Path(folder)
        )
        probes.look()
        found = probes.found()
    silent = sorted(name for name, version in found.items() if not version)
    words = ", ".join(f"{name} {version}".rstrip() for name, version in sorted(found.items()))
    if not found and machine.is_host:
        what = "none of codex, claude, agy (gemini), grok is on PATH"
        yield fails("agents", what, "install one, or correct PATH or [agents.NAME] command")
    elif silent:
        remedy = "run it by hand: it may want a login, or be another program of that name"
        yield warns("agents", f"{words}; no version from {', '.join(silent)}", remedy)
    else:
        yield holds("agents", words or "none is on PATH, and no lane is served here")


def check_git(machine: Machine) -> Iterator[Finding]:
    """Ask git for its version."""
    spec = ProcessSpec(
        argv=("git", "--version"), cwd=os.sep, env=machine.environment, timeout_s=_LIMIT_S
    )
    outcome = run(machine.runner, spec)
    if outcome.state is not EndState.EXITED or outcome.exit_code != 0:
        yield fails("git", f"cannot be run: {outcome.why or 'it failed'}", "install git")
        return
    said = outcome.stdout.decode("utf-8", "replace").strip()
    version = _version_in(said)
    least = ".".join(str(number) for number in GIT_MINIMUM)
    if version < GIT_MINIMUM:
        yield fails("git", f"{said} is older than {least}", f"install git {least} or newer")
    elif version < _GIT_TRIED:
        yield warns("git", f"{said}: nothing was tried with one so old", "install a newer git")
    else:
        yield holds("git", said)


def _version_in(said: str) -> tuple[int, ...]:
    """Return major and minor of a version in a text, () when there is none."""
    match = _VERSION.search(said)
    return () if match is None else (int(match[1]), int(match[2]))
