"""The names of the agents, by themselves: a help text that lists them needs no model.

Owns the list. A new name is an addition to the frozen contract; what one means never changes.
"""

from __future__ import annotations

from enum import StrEnum


class AgentName(StrEnum):
    """The agents of the contract: adapter keys."""

    CODEX = "codex"
    CLAUDE = "claude"
    GEMINI = "gemini"
    GROK = "grok"
