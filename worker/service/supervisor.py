"""What a service manager is to us: a file with a text, and the commands around it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from runagent.process import EndState, ProcessOutcome
from worker.service.description import Service

Command: TypeAlias = tuple[str, ...]
RUNNING: Final = "running"
STOPPED: Final = "stopped"
NO_MANAGER: Final = "no service manager"


class Supervisor(Protocol):
    """systemd, launchd or Windows' Task Scheduler, for one user or for the whole machine."""

    @property
    def name(self) -> str:
        """Return its name for people."""
        ...

    @property
    def file(self) -> Path:
        """Return where the unit stands."""
        ...

    def text(self, service: Service) -> str:
        """Return the whole unit."""
        ...

    def commands(self, what: str) -> tuple[Command, ...]:
        """Return what is run for `what`: start (after the file is written), stop (before it is
        removed), forget (after it was removed), state."""
        ...

    def read_state(self, outcome: ProcessOutcome) -> str:
        """Return RUNNING, STOPPED or NO_MANAGER, by how the `state` command ended."""
        ...

    def notes(self, service: Service, environment: Mapping[str, str]) -> tuple[str, ...]:
        """Return what a person should know about this manager."""
        ...


def was_answered(outcome: ProcessOutcome) -> bool:
    """Say whether a command of the manager ran at all."""
    return outcome.state is EndState.EXITED
