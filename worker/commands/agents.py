"""`fleet-dispatch agents`: which agents this machine has, and what their CLIs can do."""

from __future__ import annotations

import dataclasses
import tempfile
from typing import TYPE_CHECKING, Any, Final

import click

from contracts.errors import Unavailable
from dispatch.commands.boundary import boundary
from dispatch.commands.output import json_option, print_document, print_table

if TYPE_CHECKING:
    from contracts.run_agent import AgentName
    from runagent.agents import AgentPreset
    from runagent.clis.look import CliLook
    from worker.settings import HostSettings

_EXAMPLE: Final = """\b
Example:
  fleet-dispatch agents
  fleet-dispatch agents --json
"""


@click.command(epilog=_EXAMPLE)
@json_option
@boundary
def command(*, as_json: bool) -> None:
    """Show each agent's CLI on this machine: version, tested versions, capabilities, account.

    Each is asked for its version, once per program file; no model is called.
    """
    from contracts.run_agent import AgentName
    from runagent.clis.look import CliLook
    from runagent.process import system_runner
    from worker.settings import load_host_settings

    settings = load_host_settings()
    with tempfile.TemporaryDirectory(prefix="fleet-dispatch-") as folder:
        look = CliLook(system_runner(), settings.agent_memory_file)
        rows = [_look_at(name, settings, look, folder) for name in AgentName]
    if as_json:
        print_document({"agents": rows})
        return
    print_table(
        ("AGENT", "CLI", "VERSION", "TESTED", "ACCOUNT", "CAN"),
        [
            (row["agent"], row["cli"], _version_cell(row), row["tested"], row["account"], _can(row))
            for row in rows
        ],
    )


def _look_at(name: AgentName, settings: HostSettings, look: CliLook, folder: str) -> dict[str, Any]:
    from dispatch.pools.limit import DEFAULT_ACCOUNT
    from runagent.agents import AGENTS
    from runagent.attempt import find_program
    from runagent.clis import cli_of
    from runagent.clis.look import Seen
    from runagent.clis.versions import standing, words_of_tested
    from runagent.environment import agent_environment
    from worker.settings import process_environment

    preset = settings.presets[name]
    facts = cli_of(name, preset)
    environment = agent_environment(
        process_environment(), extra_names=(*settings.allowed_variables, *preset.env)
    )
    program, seen = "", Seen()
    try:
        program = find_program(AGENTS[name], preset, environment)
        seen = look.ask(facts, (program, *preset.command[1:]), environment, cwd=folder)
    except Unavailable:
        pass  # not here: shown as that
    return {
        "agent": name.value,
        "cli": facts.cli,
        "program": program,
        "version": seen.version,
        "standing": standing(seen.version, facts).value,
        "tested": words_of_tested(facts),
        "missingOptions": list(seen.missing),
        "account": settings.governor.accounts.get(name) or DEFAULT_ACCOUNT,
        **_chosen(preset),
        "capabilities": dataclasses.asdict(facts.capabilities),
    }


def _chosen(preset: AgentPreset) -> dict[str, Any]:
    return {
        "command": list(preset.command),
        "flags": list(preset.flags),
        "model": preset.model,
        "env": list(preset.env),
    }


def _version_cell(row: dict[str, Any]) -> str:
    if not row["program"]:
        return "not here"
    return f"{row['version'] or '?'} ({row['standing']})"


def _can(row: dict[str, Any]) -> str:
    return ", ".join(name.replace("_", " ") for name, can in row["capabilities"].items() if can)
