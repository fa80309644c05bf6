"""What one run is given: the order, and the ports through which it reaches the machine.

Owns the two values and the watcher's protocol. Everything that differs between a listener, a
person's terminal and a test comes in here; the run itself knows no settings, no journal and no
signals.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from contracts.clock import Clock
from contracts.run_agent import AgentName, RunAgentRequest
from contracts.sandbox import Capability
from runagent.agents import AgentPreset
from runagent.around.watched import WatchList
from runagent.clis.look import CliLook
from runagent.events.protocol import NO_LOG, EventLog
from runagent.files.manifest import ManifestBounds
from runagent.governor import Governor
from runagent.process import ProcessRunner
from runagent.sandbox.none import NoSandbox
from runagent.sandbox.protocol import Sandbox
from runagent.trees.repo_trust import TRUST_ALL, RepoTrust
from runagent.trees.spare import NO_SPARES, SpareStore
from runagent.trees.tree_registry import NO_REGISTRY, TreeRegistry
from runagent.trees.worktree_options import WorktreeOptions
from validation.redaction import Redactor

VALIDATION_TIMEOUT_S: Final = 1_200  # the agent's own default limit, for want of a better measure
GIT_TIMEOUT_S: Final = 600.0
# The makers' request limits are counted by the minute: what does not pass within one is no hiccup.
RETRY_PATIENCE_S: Final = 60.0


class RunWatcher(Protocol):
    """Told what goes on, for people's eyes; called from several threads; its trouble is ignored."""

    def phase(self, name: str) -> None:
        """Take note that the run enters `name` (checking, worktree, agent, validation, …)."""
        ...

    def agent_line(self, text: str) -> None:
        """Take note of something that the agent said or does: one line, inert, 200 characters."""
        ...


class SilentWatcher:
    """Watches nothing."""

    def phase(self, name: str) -> None:
        """See RunWatcher.phase."""

    def agent_line(self, text: str) -> None:
        """See RunWatcher.agent_line."""


def keep_no_record(_state: str, _attempt: int, _why: str) -> None:
    """Record nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """One job for this machine.

    `request` is the contract's, untouched; `repo_on_host` is its repository as this host has it.
    `limit_s`, when set, is the agent's time limit per attempt instead of the request's own.
    """

    job_id: str
    request: RunAgentRequest
    repo_on_host: str
    host: str
    limit_s: float | None = None
    require_sandbox: frozenset[Capability] = frozenset()  # what the policy asks of the box
    validator: tuple[str, ...] = ()  # what validateCommand names, as argv; (): a shell gets it

    @property
    def agent_limit_s(self) -> float:
        """Return the agent's time limit per attempt, in seconds."""
        return self.request.effective_timeout_s if self.limit_s is None else self.limit_s


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPorts:
    """The machine as one run sees it.

    `environment` is the source from which agent and validator inherit by allow-list, `inherit`
    the further names that this host lets through. `runtime_dir` is this job's own, private, and
    absolute: the shadow git directory, the staged prompt and the raw tails live there. `record`
    is told `started` before each start, `agent_done` and `validated`; what it raises stops the
    run. `cancelled` stops the run wherever it is. `trees` is where the worktree is written down,
    `worktree` how this host wants it made.
    """

    runner: ProcessRunner
    clock: Clock
    environment: Mapping[str, str]
    runtime_dir: str
    inherit: tuple[str, ...] = ()
    presets: Mapping[AgentName, AgentPreset] = field(default_factory=dict)
    governor: Governor | None = None  # None: a host without one
    look: CliLook | None = None  # None: no CLI is asked for its version
    sandbox: Sandbox = field(default_factory=NoSandbox)
    watch: RunWatcher = field(default_factory=SilentWatcher)
    record: Callable[[str, int, str], None] = keep_no_record
    cancelled: threading.Event = field(default_factory=threading.Event)
    validation_timeout_s: float = VALIDATION_TIMEOUT_S
    git_timeout_s: float = GIT_TIMEOUT_S
    detectors: tuple[str, ...] = ()
    redactor: Redactor = field(default_factory=Redactor)  # knows this host's secrets
    watch_list: WatchList | None = None  # None: nothing around the worktree is looked at
    trust: RepoTrust = TRUST_ALL
    trees: TreeRegistry = NO_REGISTRY
    spares: SpareStore = NO_SPARES  # trees that were checked out ahead of time
    worktree: WorktreeOptions = field(default_factory=WorktreeOptions)
    events: EventLog = NO_LOG  # where the job's events are written down
    retry_patience_s: float = RETRY_PATIENCE_S  # with a CLI that announces retries of its own
    manifest_bounds: ManifestBounds = field(default_factory=ManifestBounds)  # of one look
