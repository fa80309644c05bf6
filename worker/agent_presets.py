"""How each agent is started on this host: its adapter's default, and what the host chose.

Owns the reading of `[agents.NAME]`. What a CLI allows is its adapter's word.
"""

from __future__ import annotations

from contracts.errors import InvalidRequest, Problem
from contracts.run_agent import AgentName
from dispatch.config_agents import AgentSection
from dispatch.settings import Settings
from runagent.agents import AGENTS, AgentPreset


def agent_presets(settings: Settings) -> dict[AgentName, AgentPreset]:
    """Return the preset of every agent. Raises InvalidRequest with all problems."""
    known = {name.value for name in AgentName}
    problems = [
        Problem(f"agents.{name}", "is not an agent we know", f"one of {', '.join(sorted(known))}")
        for name in sorted(set(settings.agents) - known)
    ]
    presets: dict[AgentName, AgentPreset] = {}
    for name in AgentName:
        presets[name] = _preset(name, settings.agents.get(name.value) or AgentSection())
    if problems:
        raise InvalidRequest(problems)
    return presets


def _preset(name: AgentName, section: AgentSection) -> AgentPreset:
    preset = AGENTS[name].default_preset()
    return AgentPreset(
        command=section.command or preset.command,
        flags=preset.flags if section.flags is None else section.flags,
    )
