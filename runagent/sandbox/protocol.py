"""What a sandbox is to a run: a box around agent and validator, and what is taken out of it.

Owns the values and the two protocols. A sandbox is chosen by the host, never by an envelope. It
must never claim to enforce what was not tried on this machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from contracts.errors import CouldNotCheck, PolicyRefused
from contracts.run_agent import AgentName, Risk
from contracts.sandbox import Capability, SandboxMode, SandboxReport
from runagent.process import ProcessRunner
from runagent.trees.worktree import Worktree


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One job as its box needs to know it. Paths are absolute.

    `environment` is the agent's, `host_environment` the whole of the host's: it names the sockets
    that the agent must not reach. `runner` and `deadline_s` are for the host's own git.
    """

    worktree: Worktree
    runtime_dir: str
    agent: AgentName
    program: str  # the agent's CLI
    environment: Mapping[str, str]
    host_environment: Mapping[str, str]
    runner: ProcessRunner
    deadline_s: float


@dataclass(frozen=True, slots=True)
class GitPlace:
    """Where the agent's own git state lies for the host to read: the worktree's git directory, and
    the directory that holds its refs."""

    admin_dir: str
    common_dir: str


class Box(Protocol):
    """The box of one job: the same for every attempt and for the validator."""

    @property
    def git(self) -> GitPlace:
        """Return where HEAD and refs stand as the agent left them."""
        ...

    def around(self, runner: ProcessRunner, /) -> ProcessRunner:
        """Return a runner whose programs run inside the box."""
        ...

    def renew(self) -> None:
        """Let the validator begin as the agent did: what the agent left in the private places (the
        layer of the home, temporary files) goes. Raises CouldNotCheck when it cannot."""
        ...

    def bring_home(self) -> tuple[Risk, ...]:
        """Take what was committed in the box into the real repository, and move the job's ref
        alone. Twice is once. Never raises: what could not be taken is a risk, and is kept."""
        ...

    def close(self) -> None:
        """Remove the private folders, but for commits that did not come home. Never raises."""
        ...


class Sandbox(Protocol):
    """A way to confine runs on this machine."""

    @property
    def mode(self) -> SandboxMode:
        """Return how."""
        ...

    @property
    def enforces(self) -> frozenset[Capability]:
        """Return what was seen to hold on this machine."""
        ...

    def enclose(self, site: Site) -> Box:
        """Build the box of a job, before its agent starts.

        Raises RepositoryRefused when the repository lies where the box hides everything,
        CouldNotCheck when the box cannot be built.
        """
        ...


def not_renewed(error: OSError) -> CouldNotCheck:
    """Return the error for private places of a box that could not be made anew."""
    return CouldNotCheck(
        "what the agent left in the sandbox's own places could not be taken away before the "
        f"validation: {error.strerror}"
    )


def report_of(sandbox: Sandbox) -> SandboxReport:
    """Return what a result says of `sandbox`."""
    return SandboxReport(
        mode=sandbox.mode.value,
        enforces=_in_order(sandbox.enforces),
        notEnforced=_in_order(frozenset(Capability) - sandbox.enforces),
    )


def refuse_weaker(sandbox: Sandbox, required: frozenset[Capability]) -> None:
    """Return if `sandbox` enforces all that is `required`.

    Raises PolicyRefused (code `sandbox`) naming what it does not enforce.
    """
    missing = _in_order(required - sandbox.enforces)
    if missing:
        raise PolicyRefused(
            f"this host's sandbox ({sandbox.mode.value}) does not enforce {', '.join(missing)}",
            code="sandbox",
            remedy="see fleet-dispatch sandbox check, or change require_sandbox in policy.toml",
        )


def _in_order(capabilities: Iterable[Capability]) -> tuple[str, ...]:
    wanted = frozenset(capabilities)
    return tuple(capability.value for capability in Capability if capability in wanted)
