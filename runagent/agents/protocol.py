"""What the host needs to know about one agent CLI.

Owns the protocol and its two values. An agent here is pure: it says how its CLI is started and
what a line of its output means. It starts nothing, reads no file, and judges nothing: whatever a
CLI claims about its own success weighs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from contracts.events import Event
from contracts.run_agent import AgentName


@dataclass(frozen=True, slots=True)
class AgentPreset:
    """How a host starts an agent: the `command` that stands first in argv and the `flags` it
    grants; `variant` names another CLI behind the agent, `model` its model, `env` the variables
    that this agent alone inherits. All of it is the host's choice and never part of a request."""

    command: tuple[str, ...]
    flags: tuple[str, ...]
    variant: str = ""
    model: str = ""
    env: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where and how long an agent works: the worktree (absolute) and the limit in seconds."""

    worktree: str
    timeout_s: int


class Agent(Protocol):
    """One agent CLI. Every member is constant or pure."""

    @property
    def name(self) -> AgentName:
        """Return the adapter key of the contract."""
        ...

    @property
    def executable(self) -> str:
        """Return the program's name as its makers ship it."""
        ...

    @property
    def honours_cwd(self) -> bool:
        """Say whether the CLI works in the directory it is started in. One that does not must
        name the worktree in its argv."""
        ...

    @property
    def prompt_on_stdin(self) -> bool:
        """Say whether the prompt goes down stdin; else it is one argument of argv."""
        ...

    @property
    def environment(self) -> Mapping[str, str]:
        """Return variables to set where the host's environment has none of that name."""
        ...

    def default_preset(self) -> AgentPreset:
        """Return the preset of a host whose configuration names none."""
        ...

    def argv(self, prompt: str, preset: AgentPreset, place: Place, /) -> tuple[str, ...]:
        """Return the argument vector; `prompt` is in it exactly once, whole, unless the prompt
        goes down stdin."""
        ...

    def read_line(self, line: str) -> Sequence[Event] | None:
        """Return what one line of stdout says, None for an object of a kind that nobody here can
        read. Lenient: no line, however broken, raises."""
        ...
