"""What a sandbox around an agent can enforce, in words that a result and a policy share.

Wire vocabulary: a result lists these words and a host's policy asks for them. A word is never given
another meaning, and none is taken away.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, StrictStr


class SandboxMode(StrEnum):
    """How agent and validator are confined."""

    BUBBLEWRAP = "bwrap"
    LANDLOCK = "landlock"
    SEATBELT = "seatbelt"  # macOS; written from its manual and never run
    NONE = "none"


class Capability(StrEnum):
    """One thing that a sandbox enforces, or does not."""

    WRITES = "writes"  # written is only to the worktree, private places, caches and own folders
    KEYS = "keys"  # our keys, settings and state cannot be read
    GIT = "git"  # objects, refs, config, hooks and the `.git` pointer of the repository are safe
    AGENT_SETTINGS = "agent_settings"  # agents' settings, hooks and commands cannot be changed
    SOCKETS = "sockets"  # ssh-agent, docker and the user's bus cannot be reached by their path
    PROCESSES = "processes"  # other processes are unseen, and nothing outlives the run
    NETWORK = "network"  # no mode of ours closes it: said so that nobody takes it for closed


class SandboxReport(BaseModel):
    """What stood around the agent and the validator of one run. `mode` is "" when nobody said."""

    model_config = ConfigDict(frozen=True, extra="allow")

    mode: StrictStr = ""
    enforces: tuple[StrictStr, ...] = ()
    notEnforced: tuple[StrictStr, ...] = ()
