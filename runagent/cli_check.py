"""What the host looks at of an agent's CLI before it starts it: its version and its options.

Owns what follows from the answer: a note for a version that nobody tested, an option that is left
out with a note, and the refusal to start a CLI without an option that decides where it works, what
it may do or what it prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from contracts.errors import Unavailable
from contracts.run_agent import AgentName, Risk
from runagent.agents import AgentPreset
from runagent.clis import CliFacts, cli_of
from runagent.clis.look import CliLook
from runagent.clis.versions import Standing, standing, words_of_tested

_UNTESTED: Final = {
    Standing.OLDER: "is older than every version that was tested",
    Standing.NEWER: "is newer than every version that was tested",
}


@dataclass(frozen=True, slots=True)
class CheckedCli:
    """A CLI that may be started: its version as it states it, the options that it does not know,
    and what people should know."""

    facts: CliFacts
    version: str = ""
    left_out: frozenset[str] = frozenset()
    notes: tuple[Risk, ...] = ()


def check_cli(
    agent: AgentName,
    preset: AgentPreset,
    program: str,
    environment: Mapping[str, str],
    look: CliLook | None,
    *,
    cwd: str,
) -> CheckedCli:
    """Return what is known of the CLI at `program` (absolute); with `look` None nothing is asked.

    Raises Unavailable when it lacks an option without which it must not be started.
    """
    facts = cli_of(agent, preset)
    if look is None:
        return CheckedCli(facts)
    seen = look.ask(facts, (program, *preset.command[1:]), environment, cwd=cwd)
    # A flag that this host's preset does not give is nobody's need.
    given = set(facts.flags) - (set(facts.default_flags) - set(preset.flags))
    missing = [flag for flag in seen.missing if flag in given]
    if needed := [flag for flag in missing if flag in facts.needed]:
        raise Unavailable(
            f"{facts.cli} {seen.version} on this host does not know {', '.join(needed)}",
            remedy=f"install a tested version of it ({words_of_tested(facts)})",
        )
    notes = []
    if words := _UNTESTED.get(standing(seen.version, facts)):
        message = f"{facts.cli} {seen.version} {words} ({words_of_tested(facts)})"
        notes.append(Risk(code="agent_version_untested", message=message))
    if missing:
        message = f"{facts.cli} {seen.version} was started without {', '.join(missing)}"
        notes.append(Risk(code="agent_flag_missing", message=f"{message}: it does not know that"))
    return CheckedCli(facts, seen.version, frozenset(missing), tuple(notes))
