"""`fleet-dispatch sandbox check`: what would stand around an agent on this machine, tried now.

Owns the words and the shape of the answer. Exit 2 when the configuration names a sandbox that does
not work here.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from contracts.errors import ExitCode
from dispatch.commands.boundary import boundary
from dispatch.commands.sub_verbs import SubVerbs

if TYPE_CHECKING:
    from contracts.sandbox import SandboxMode
    from runagent.sandbox.probe import Probed
    from worker.settings import HostSettings

_TRIAL_S: Final = 30.0  # as the canary's patience: a start takes milliseconds
_EXAMPLE: Final = """\b
Example:
  fleet-dispatch sandbox check
  fleet-dispatch sandbox check --json
"""


@click.group(cls=SubVerbs, help="What confines agents and validators on this host.")
def command() -> None:
    """Hold the one verb of this group."""


@command.command(
    help="Try each sandbox on this machine with a canary, and say what the chosen one enforces.\n\n"
    "Exit 2 when the one that config.toml names does not work here.",
    epilog=_EXAMPLE,
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@boundary
def check(*, as_json: bool) -> None:
    """Probe, print, and set the exit code."""
    from runagent.environment import scrub_own_git_variables
    from runagent.sandbox.choice import candidates
    from worker.settings import load_host_settings

    scrub_own_git_variables()
    settings = load_host_settings()
    tried = [_try(mode, settings) for mode in (*candidates(), *_named(settings))]
    chosen = _choose(settings, tried)
    document = _document(settings, chosen, tried)
    click.echo(json.dumps(document) if as_json else _as_text(document))
    if chosen is None:
        raise click.exceptions.Exit(int(ExitCode.REFUSED))


def _named(settings: HostSettings) -> tuple[SandboxMode, ...]:
    from contracts.sandbox import SandboxMode
    from runagent.sandbox.choice import AUTO, candidates

    named = settings.sandbox_mode
    if named == AUTO or SandboxMode(named) in (*candidates(), SandboxMode.NONE):
        return (SandboxMode.NONE,)
    return (SandboxMode(named), SandboxMode.NONE)


def _try(mode: SandboxMode, settings: HostSettings) -> Probed:
    from runagent.process import system_runner
    from runagent.sandbox.choice import try_mode
    from worker.host_sandbox import sandbox_settings
    from worker.settings import process_environment

    return try_mode(mode, sandbox_settings(settings), system_runner(), process_environment())


def _choose(settings: HostSettings, tried: list[Probed]) -> Probed | None:
    """Return what a run here would get; None when the named one does not work."""
    from contracts.sandbox import SandboxMode
    from runagent.sandbox.choice import AUTO

    named = settings.sandbox_mode
    if named == AUTO:
        return next(probed for probed in tried if probed.works or probed.mode is SandboxMode.NONE)
    found = next(probed for probed in tried if probed.mode.value == named)
    return found if found.works or found.mode is SandboxMode.NONE else None


def _document(settings: HostSettings, chosen: Probed | None, tried: list[Probed]) -> dict[str, Any]:
    return {
        "configured": settings.sandbox_mode,
        "mode": chosen.mode.value if chosen else None,
        "capabilities": _capabilities(chosen) if chosen else {},
        "processesEndedBy": _enders(chosen) if chosen else [],
        "modes": {
            probed.mode.value: {
                "works": probed.works,
                "why": probed.fault,
                "capabilities": _capabilities(probed),
            }
            for probed in tried
        },
    }


def _enders(chosen: Probed) -> list[str]:
    """Return what ends the processes of a run here, the surest first; the cgroup is tried."""
    from contracts.sandbox import SandboxMode
    from runagent._cgroup import PREFIX
    from runagent.process import ProcessSpec, run, system_runner
    from worker.settings import process_environment

    if sys.platform != "linux":
        return ["process snapshots"]
    words = ("cat", "/proc/self/cgroup")
    environment = dict(process_environment())
    spec = ProcessSpec(argv=words, cwd="/", env=environment, timeout_s=_TRIAL_S)
    has_cgroup = PREFIX.encode() in run(system_runner(), spec).stdout
    found = [
        ("pid namespace", chosen.mode is SandboxMode.BUBBLEWRAP),
        ("cgroup", has_cgroup),
        ("subreaper", True),
    ]
    return [word for word, is_there in found if is_there]


def _capabilities(probed: Probed) -> dict[str, dict[str, Any]]:
    from contracts.sandbox import Capability

    return {
        capability.value: {
            "enforced": capability in probed.enforces,
            "why": probed.why.get(capability, ""),
        }
        for capability in Capability
    }


def _as_text(document: dict[str, Any]) -> str:
    from contracts.sandbox import SandboxMode

    named, mode = document["configured"], document["mode"]
    if mode is None:
        why = document["modes"][named]["why"]
        lines = [f"mode      {named} is configured and does not work here: {why}"]
    else:
        lines = [f"mode      {mode} (configured: {named})"]
    for name, finding in document["capabilities"].items():
        why = f"  {finding['why']}" if finding["why"] else ""
        lines.append(f"{name:<16} {'yes' if finding['enforced'] else 'no '}{why}")
    if document["processesEndedBy"]:
        lines.append(f"processes of a run are ended by {', '.join(document['processesEndedBy'])}")
    for name, finding in document["modes"].items():
        if name not in (mode, SandboxMode.NONE.value):
            said = "works too" if finding["works"] else f"does not work: {finding['why']}"
            lines.append(f"{name:<9} {said}")
    return "\n".join(lines)
