"""What each agent's CLI can do and takes, as data: one file per CLI, and the dict of them all.

`runagent.agents` reads what a CLI prints; here stands what may be asked of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PureWindowsPath
from types import MappingProxyType
from typing import Final

from contracts.run_agent import AgentName
from runagent.agents.protocol import AgentPreset
from runagent.clis import agy, claude, codex, gemini_cli, grok
from runagent.clis.facts import CliFacts

__all__ = ["CLIS", "CliFacts", "cli_of", "facts_of"]

# An agent's first CLI is its default, the others are variants that a host may choose.
CLIS: Final[Mapping[AgentName, tuple[CliFacts, ...]]] = MappingProxyType(
    {
        AgentName.CODEX: (codex.FACTS,),
        AgentName.CLAUDE: (claude.FACTS,),
        AgentName.GEMINI: (agy.FACTS, gemini_cli.FACTS),
        AgentName.GROK: (grok.FACTS,),
    }
)


def facts_of(agent: AgentName, variant: str = "") -> CliFacts:
    """Return the CLI of `agent`: its `variant`, "" for the default one. Raises KeyError for a
    variant that it has not."""
    named = {facts.cli: facts for facts in CLIS[agent]}
    return named[variant] if variant else CLIS[agent][0]


def cli_of(name: AgentName, preset: AgentPreset) -> CliFacts:
    """Return the CLI that `preset` starts: its variant, else what its command is called."""
    if preset.variant:
        return facts_of(name, preset.variant)
    stems = {PureWindowsPath(part).stem for part in preset.command}
    named = [facts for facts in CLIS[name] if facts.program in stems]
    return named[0] if named else facts_of(name)
