"""The shape of what is known of one CLI. Values only; nothing here starts anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a CLI can do, whether or not this product uses it yet.

    `injection`: a message can be put into a running turn. `approvals_to_host`: it can ask the host
    before it uses a tool.
    """

    structured_stream: bool
    stdin_prompt: bool
    honours_cwd: bool
    resume: bool
    fork: bool
    injection: bool
    approvals_to_host: bool
    usage: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CliFacts:
    """One CLI.

    `tested`: the oldest and the newest version that was run for this product, None where none was.
    `flags`: the options that its adapter gives, each with whether a start without it would be
    another one (its place, its permissions, its output); `values` are those of them that a value
    follows. `extra_args`: what a host's owner may add, each with whether a value follows.
    """

    cli: str
    program: str
    capabilities: Capabilities
    tested: tuple[Version, Version] | None
    flags: Mapping[str, bool]
    values: frozenset[str] = frozenset()
    help_argv: tuple[str, ...] = ("--help",)
    default_flags: tuple[str, ...] = ()
    model_option: str = "--model"
    extra_args: Mapping[str, bool] = field(default_factory=dict)

    @property
    def needed(self) -> tuple[str, ...]:
        """Return the flags without which the agent is not started."""
        return tuple(flag for flag, is_needed in self.flags.items() if is_needed)
