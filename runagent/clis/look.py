"""What a CLI says of itself on this host: its version, and which options it knows.

Owns the two questions (`--version`, and `--help` where the version is not a tested one), their
limits, and the memory of the answers by the program file's identity. What a program says of itself
is recorded and shown, and decides no more than which options it is given.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from runagent.clis.facts import CliFacts
from runagent.clis.versions import Standing, read_version, standing
from runagent.process import EndState, ProcessRunner, ProcessSpec, run

_LIMIT_S: Final = 10.0  # a Node CLI prints its version within 2 s on a busy machine
_HELP_MAX_BYTES: Final = 256 * 1024  # the longest of the tested ones is 22 kB
_REMEMBERED_MAX: Final = 64
_FILE_MAX_BYTES: Final = 256 * 1024
_OPTION: Final = re.compile(r"(?<![\w-])--?[A-Za-z][A-Za-z0-9-]*")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a CLI said. `missing` are options of ours that its help does not know; nothing is
    concluded from a help text that knows none of them."""

    version: str = ""
    missing: tuple[str, ...] = ()


class CliLook:
    """Asks CLIs, and remembers in one file."""

    def __init__(self, runner: ProcessRunner, memory: Path) -> None:
        """`memory` is a file of ours; one that cannot be read or written costs the memory alone."""
        self._runner = runner
        self._memory = memory

    def ask(
        self,
        facts: CliFacts,
        command: tuple[str, ...],
        environment: Mapping[str, str],
        *,
        cwd: str,
    ) -> Seen:
        """Return what the program `command[0]` (absolute) says of itself; takes 20 s at most.
        Never raises."""
        key = _identity(facts, command)
        remembered = self._recall()
        if key and (found := _read_seen(remembered.get(key))) is not None:
            return found
        version = read_version(self._run((*command, "--version"), environment, cwd))
        missing: tuple[str, ...] = ()
        if version and standing(version, facts) is not Standing.TESTED:
            missing = _missing(self._run((*command, *facts.help_argv), environment, cwd), facts)
        seen = Seen(version, missing)
        if key and version:  # one that did not answer is asked again
            self._remember(remembered, key, seen)
        return seen

    def _run(self, argv: tuple[str, ...], environment: Mapping[str, str], cwd: str) -> str:
        spec = ProcessSpec(
            argv=argv,
            cwd=cwd,
            env=environment,
            timeout_s=_LIMIT_S,
            grace_s=1.0,
            tail_bytes=_HELP_MAX_BYTES,
        )
        outcome = run(self._runner, spec)
        if outcome.state is not EndState.EXITED or outcome.exit_code != 0:
            return ""
        return outcome.stdout.decode("utf-8", "replace")

    def _recall(self) -> dict[str, Any]:
        try:
            with self._memory.open("rb") as file:
                data = json.loads(file.read(_FILE_MAX_BYTES))
        except (OSError, ValueError, RecursionError):
            return {}
        return data if isinstance(data, dict) else {}

    def _remember(self, known: dict[str, Any], key: str, seen: Seen) -> None:
        kept = dict(list(known.items())[-(_REMEMBERED_MAX - 1) :])
        kept[key] = {"version": seen.version, "missing": list(seen.missing)}
        fresh = self._memory.with_name(f"{self._memory.name}.{os.getpid()}")
        try:
            fresh.write_text(json.dumps(kept), encoding="utf-8")
            os.replace(fresh, self._memory)
        except OSError:
            with contextlib.suppress(OSError):
                fresh.unlink()


def _missing(text: str, facts: CliFacts) -> tuple[str, ...]:
    known = set(_OPTION.findall(text))
    missing = tuple(flag for flag in facts.flags if flag not in known)
    return () if len(missing) == len(facts.flags) else missing


def _identity(facts: CliFacts, command: tuple[str, ...]) -> str:
    """Return what tells this program file from every other one and from its own earlier self: npm
    gives every file the same time of change, so inode and change of inode count, too."""
    try:
        real = os.path.realpath(command[0])
        at = os.stat(real)
    except OSError:
        return ""
    parts = [facts.cli, real, *command[1:], at.st_dev, at.st_ino, at.st_size]
    parts += [at.st_mtime_ns, at.st_ctime_ns]
    return hashlib.sha256("\0".join(map(str, parts)).encode("utf-8", "replace")).hexdigest()


def _read_seen(value: object) -> Seen | None:
    if not isinstance(value, dict):
        return None
    version, missing = value.get("version"), value.get("missing")
    if not isinstance(version, str) or not isinstance(missing, list):
        return None
    return Seen(version[:64], tuple(flag for flag in missing if isinstance(flag, str)))
