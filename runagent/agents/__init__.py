"""The agent CLIs of the contract, one file each, and the one dict that names them all."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from contracts.run_agent import AgentName
from runagent.agents.claude import Claude
from runagent.agents.codex import Codex
from runagent.agents.gemini import Gemini
from runagent.agents.grok import Grok
from runagent.agents.protocol import Agent, AgentPreset, Place

__all__ = ["AGENTS", "Agent", "AgentPreset", "Place"]

AGENTS: Final[Mapping[AgentName, Agent]] = MappingProxyType(
    {
        AgentName.CODEX: Codex(),
        AgentName.CLAUDE: Claude(),
        AgentName.GEMINI: Gemini(),
        AgentName.GROK: Grok(),
    }
)
