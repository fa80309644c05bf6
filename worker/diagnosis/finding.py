"""A finding of the doctor, what it is made about, and the shape of a check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from contracts.clock import Clock
from contracts.errors import FleetError
from dispatch.settings import Settings
from runagent.process import ProcessRunner
from worker.settings import HostSettings


class FindingState(StrEnum):
    """OK holds. WARNING holds, and somebody should know. FAILED does not hold."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at: what was seen, and, unless it is OK, how to mend it."""

    name: str
    state: FindingState
    what: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The installation under the doctor's eyes."""

    settings: Settings
    host: HostSettings
    environment: Mapping[str, str]
    runner: ProcessRunner
    clock: Clock

    @property
    def is_host(self) -> bool:
        """Say whether a listener is meant to run here: what only concerns one is else left out."""
        return bool(self.host.lanes)


class Check(Protocol):
    """Looks at one thing and changes nothing."""

    def __call__(self, machine: Machine) -> Iterable[Finding]:
        """Return what was found. May raise FleetError: that is a finding, too."""
        ...


def holds(name: str, what: str) -> Finding:
    """Return the finding that all is well."""
    return Finding(name=name, state=FindingState.OK, what=what)


def warns(name: str, what: str, remedy: str) -> Finding:
    """Return a finding that somebody should know of."""
    return Finding(name=name, state=FindingState.WARNING, what=what, remedy=remedy)


def fails(name: str, what: str, remedy: str) -> Finding:
    """Return the finding that something does not hold."""
    return Finding(name=name, state=FindingState.FAILED, what=what, remedy=remedy)


def of_error(name: str, error: FleetError) -> Finding:
    """Return the finding that `error` stands for."""
    problems = getattr(error, "problems", ())
    if problems:
        what = "; ".join(f"{problem.field}: {problem.message}" for problem in problems)
        return fails(name, what, "; ".join(problem.remedy for problem in problems))
    return fails(name, error.message, error.remedy or "see the message")
