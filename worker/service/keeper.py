"""Putting a unit in place, looking at it, and taking it away.

Knows one file and the manager's commands. A file that this installation did not write is never
changed; state, keys and settings are never touched. Twice is once.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from contracts.errors import Refused, Unavailable
from runagent.process import EndState, ProcessRunner, ProcessSpec, run
from validation.inert import one_line
from worker.service.description import Service
from worker.service.supervisor import NO_MANAGER, RUNNING, Command, Supervisor

UNIT_MODE: Final = 0o644  # it holds no secret, and a manager of another user reads it
_UNIT_MAX_BYTES: Final = 64 * 1024
_COMMAND_S: Final = 60.0
_TAIL_BYTES: Final = 16 * 1024


class UnitState(StrEnum):
    """What stands where the unit belongs."""

    MISSING = "missing"
    CURRENT = "current"
    OUTDATED = "outdated"  # ours, and not what the settings say now
    FOREIGN = "foreign"  # somebody else's: another program's, a link, another installation's


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that is, or would be, done. `ok` is None for what was not tried."""

    does: str  # write | remove | run
    what: str
    ok: bool | None = None
    says: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What is there now."""

    unit: UnitState
    state: str  # running | stopped | no service manager
    says: str = ""


class ServiceKeeper:
    """The unit of one installation under one service manager."""

    def __init__(
        self,
        supervisor: Supervisor,
        service: Service,
        runner: ProcessRunner,
        environment: Mapping[str, str],
    ) -> None:
        self._supervisor, self._service = supervisor, service
        self._runner, self._environment = runner, environment
        self.text = supervisor.text(service)

    def look(self) -> Look:
        """Return what is there now; changes nothing."""
        (command,) = self._supervisor.commands("state")
        outcome = run(self._runner, self._spec(command, _COMMAND_S))
        state = self._supervisor.read_state(outcome)
        words = outcome.stderr.decode("utf-8", "replace") or outcome.why
        says = one_line(words, 200) if state == NO_MANAGER else ""
        return Look(unit=self._unit_state(), state=state, says=says)

    def install(self, *, dry_run: bool) -> tuple[Step, ...]:
        """Write the unit and have it started; return what was, or would be, done. What fails ends
        it. Raises Refused for a foreign file."""
        look = self._look_at_ours()
        steps: list[Step] = []
        if look.unit is not UnitState.CURRENT:
            steps.append(Step(does="write", what=str(self._supervisor.file)))
        if look.unit is not UnitState.CURRENT or look.state != RUNNING:
            steps += self._runs("start")
        return tuple(steps) if dry_run else self._do(steps, go_on=False)

    def uninstall(self, *, dry_run: bool) -> tuple[Step, ...]:
        """Have the listener stopped, which drains it, and remove the unit; return the steps. A
        manager that does not answer prevents nothing. Raises Refused for a foreign file."""
        if self._look_at_ours().unit is UnitState.MISSING:
            return ()
        steps = [
            *self._runs("stop"),
            Step(does="remove", what=str(self._supervisor.file)),
            *self._runs("forget"),
        ]
        return tuple(steps) if dry_run else self._do(steps, go_on=True)

    def _look_at_ours(self) -> Look:
        look = self.look()
        if look.unit is UnitState.FOREIGN:
            raise Refused(
                f"{self._supervisor.file} was not written by this installation",
                code="foreign_unit",
                remedy="look at it, and move it away if it is not needed",
            )
        return look

    def _unit_state(self) -> UnitState:
        path = self._supervisor.file
        if path.is_symlink():
            return UnitState.FOREIGN
        try:
            with path.open("rb") as file:
                text = file.read(_UNIT_MAX_BYTES).decode("utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return UnitState.MISSING
        except (OSError, UnicodeDecodeError):
            return UnitState.FOREIGN
        if text == self.text:
            return UnitState.CURRENT
        return (
            UnitState.OUTDATED if _mark_line(text) == _mark_line(self.text) else UnitState.FOREIGN
        )

    def _runs(self, what: str) -> list[Step]:
        return [Step(does="run", what=" ".join(item)) for item in self._supervisor.commands(what)]

    def _do(self, steps: Sequence[Step], *, go_on: bool) -> tuple[Step, ...]:
        commands = {
            " ".join(item): item
            for what in ("start", "stop", "forget")
            for item in self._supervisor.commands(what)
        }
        done: list[Step] = []
        failed = False
        for step in steps:
            if failed and not go_on:
                done.append(step)
                continue
            said = self._act(step, commands)
            failed = failed or bool(said)
            done.append(Step(does=step.does, what=step.what, ok=not said, says=said))
        return tuple(done)

    def _act(self, step: Step, commands: Mapping[str, Command]) -> str:
        """Do one step; return "" or why it failed."""
        if step.does == "write":
            _write_unit(self._supervisor.file, self.text)
            return ""
        if step.does == "remove":
            with contextlib.suppress(FileNotFoundError):
                self._supervisor.file.unlink()
            return ""
        # Stopping waits for the drain.
        outcome = run(
            self._runner, self._spec(commands[step.what], self._service.stop_s + _COMMAND_S)
        )
        if outcome.state is EndState.EXITED and outcome.exit_code == 0:
            return ""
        said = outcome.stderr.decode("utf-8", "replace") or outcome.why
        return one_line(said, 300) or f"exit code {outcome.exit_code}"

    def _spec(self, command: Command, limit_s: float) -> ProcessSpec:
        return ProcessSpec(
            argv=command,
            cwd=os.sep,
            env=self._environment,
            timeout_s=limit_s,
            tail_bytes=_TAIL_BYTES,
        )


def _mark_line(text: str) -> str:
    """Return the line that names who wrote a unit, "" when there is none."""
    lines = (line.strip() for line in text.splitlines() if "service install" in line)
    return next(lines, "")


def _write_unit(path: Path, text: str) -> None:
    """Write the unit in one step. Raises Unavailable when the folder says no."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with open(os.open(beside, flags, UNIT_MODE), "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        beside.chmod(UNIT_MODE)
        beside.replace(path)
    except OSError as error:
        raise Unavailable(
            f"cannot write {path}: {error.strerror}", remedy="check its folder, or your rights"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()
