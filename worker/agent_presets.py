"""How each agent is started on this host: its adapter's default, and what the host chose.

Owns the reading of `[agents.NAME]`. What a CLI allows stands in its facts.
"""

from __future__ import annotations

from contracts.errors import InvalidRequest, Problem
from contracts.run_agent import AgentName
from dispatch.config_agents import AgentSection
from dispatch.settings import Settings
from runagent.agents import AGENTS, AgentPreset
from runagent.clis import CLIS, CliFacts, cli_of
from runagent.clis.options import refused_words
from runagent.environment import is_never


def agent_presets(settings: Settings) -> dict[AgentName, AgentPreset]:
    """Return the preset of every agent. Raises InvalidRequest with all problems."""
    known = {name.value for name in AgentName}
    problems = [
        Problem(f"agents.{name}", "is not an agent we know", f"one of {', '.join(sorted(known))}")
        for name in sorted(set(settings.agents) - known)
    ]
    presets: dict[AgentName, AgentPreset] = {}
    for name in AgentName:
        section = settings.agents.get(name.value) or AgentSection()
        try:
            presets[name] = _preset(name, section)
        except InvalidRequest as error:
            problems += error.problems
    if problems:
        raise InvalidRequest(problems)
    return presets


def _preset(name: AgentName, section: AgentSection) -> AgentPreset:
    default, key = AGENTS[name].default_preset(), f"agents.{name.value}"
    if section.variant and section.variant not in {facts.cli for facts in CLIS[name]}:
        remedy = f"one of {', '.join(facts.cli for facts in CLIS[name])}"
        problem = Problem(f"{key}.variant", f"is no CLI of {name.value}", remedy)
        raise InvalidRequest([problem])
    command = section.command or default.command
    facts = cli_of(name, AgentPreset(command=command, flags=(), variant=section.variant))
    if section.variant and not section.command:
        command = (facts.program,)
    problems = [
        Problem(f"{key}.extra_args", f"{word} may not be added", _allowed_words(facts))
        for word in refused_words(section.extra_args, facts)
    ]
    problems += [
        Problem(f"{key}.env", f"{variable} is never handed to an agent", "take it out")
        for variable in section.env
        if is_never(variable)
    ]
    if problems:
        raise InvalidRequest(problems)
    return AgentPreset(
        command=command,
        flags=_flags(section, facts),
        variant=section.variant,
        model=section.model or "",
        env=section.env,
    )


def _flags(section: AgentSection, facts: CliFacts) -> tuple[str, ...]:
    """Return the words between an adapter's own. agy's model has its own place among them."""
    flags = facts.default_flags if section.flags is None else section.flags
    takes_model = section.model and facts.model_option not in facts.flags
    model = (facts.model_option, section.model or "") if takes_model else ()
    return (*flags, *model, *section.extra_args)


def _allowed_words(facts: CliFacts) -> str:
    return f"{facts.cli} takes {', '.join(sorted(facts.extra_args))}"
