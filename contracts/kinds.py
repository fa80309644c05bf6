"""The kinds of job: their names, and the further names that mean the same.

Owns the list. A kind is a name, a model of its request, and one file on the host's side; what a
name means never changes, and a breaking change of a kind needs a new name.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """The kinds that hosts of this revision know."""

    RUN_AGENT = "run_agent"  # an agent works in a worktree of its own, and is judged
    PING = "ping"  # the host says who it is; nothing is started
    PROMPT = "prompt"  # one prompt to a CLI, without a repository
    SHELL = "shell"  # one command of the sender's; off unless a host's policy names it


# The shell's own name on Windows, where it is what runs a command of kind `shell`.
ALIASES: Final[dict[str, Kind]] = {"pwsh": Kind.SHELL}

KIND_NAMES: Final = tuple(kind.value for kind in Kind)


def canonical_kind(name: str) -> str:
    """Return the kind that `name` means, `name` itself when it is no other name for one."""
    return ALIASES.get(name, name)
