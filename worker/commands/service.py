"""`fleet-dispatch service`: keep a listener of this machine running, and look after that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from contracts.errors import ExitCode
from dispatch.commands.boundary import boundary
from dispatch.commands.output import json_option, print_document
from dispatch.commands.sub_verbs import SubVerbs

if TYPE_CHECKING:
    from worker.service.keeper import ServiceKeeper, Step
    from worker.service.supervisor import Supervisor

_NO_LANES: Final = (
    'no lane is served here, so the listener does not start: set lanes = ["…"] in [host] of '
    "config.toml, or fleet-dispatch service uninstall"
)
_F = TypeVar("_F", bound=Callable[..., Any])
_URL_NOTE: Final = (
    "the broker's URL comes from the environment, which a service does not have: "
    "set redis_url in [fleet] of config.toml"
)


def _system_option(function: _F) -> _F:
    words = "A service of the whole machine instead of this user's; run as who owns the settings."
    return click.option("--system", "of_machine", is_flag=True, help=words)(function)


def _dry_run_option(function: _F) -> _F:
    words = "Show what would be done, and do nothing."
    return click.option("--dry-run", is_flag=True, help=words)(function)


@click.group(cls=SubVerbs, epilog="\b\nExample:\n  fleet-dispatch service install --dry-run\n")
def command() -> None:
    """Keep a listener running: systemd, launchd or Windows' Task Scheduler.

    The unit starts `fleet-dispatch listen` with the settings of config.toml, restarts it always,
    and gives it the time to drain. It holds no secret.
    """


@command.command(epilog="\b\nExample:\n  fleet-dispatch service install\n")
@_system_option
@_dry_run_option
@json_option
@boundary
def install(*, of_machine: bool, dry_run: bool, as_json: bool) -> ExitCode:
    """Write the unit and start it; again when it is outdated. Never over a foreign file."""
    from worker.service.description import check_lanes
    from worker.settings import load_host_settings

    check_lanes(load_host_settings())
    supervisor, keeper, notes = _keeper(of_machine=of_machine)
    steps = keeper.install(dry_run=dry_run)
    return _tell(
        supervisor, steps, notes, text=keeper.text if dry_run else "", dry=dry_run, as_json=as_json
    )


@command.command(epilog="\b\nExample:\n  fleet-dispatch service uninstall\n")
@_system_option
@_dry_run_option
@json_option
@boundary
def uninstall(*, of_machine: bool, dry_run: bool, as_json: bool) -> ExitCode:
    """Stop the listener, which drains it, and remove the unit. State and keys stay."""
    supervisor, keeper, _ = _keeper(of_machine=of_machine)
    steps = keeper.uninstall(dry_run=dry_run)
    return _tell(supervisor, steps, (), text="", dry=dry_run, as_json=as_json)


@command.command(epilog="\b\nExample:\n  fleet-dispatch service status --json\n")
@_system_option
@json_option
@boundary
def status(*, of_machine: bool, as_json: bool) -> ExitCode:
    """Say whether the unit is in place, as the settings say, and running. Exit code 4 when not."""
    from worker.service.keeper import UnitState
    from worker.service.supervisor import NO_MANAGER, RUNNING

    supervisor, keeper, notes = _keeper(of_machine=of_machine)
    look = keeper.look()
    holds = look.unit is UnitState.CURRENT and look.state == RUNNING
    if as_json:
        print_document(
            {
                "manager": supervisor.name,
                "file": str(supervisor.file),
                "unit": look.unit.value,
                "state": look.state,
                "says": look.says,
                "ok": holds,
                "notes": list(notes),
            }
        )
    else:
        said = f" ({look.says})" if look.says else ""
        if look.state == NO_MANAGER:
            said += f"; {supervisor.name} does not run here, so nothing starts the listener"
        click.echo(
            f"{supervisor.name}: unit {look.unit.value} at {supervisor.file}; {look.state}{said}"
        )
        _print_notes(notes)
    return ExitCode.OK if holds else ExitCode.FAILED


def _keeper(*, of_machine: bool) -> tuple[Supervisor, ServiceKeeper, tuple[str, ...]]:
    from dispatch.settings import load_settings
    from runagent.process import system_runner
    from worker.service.choice import choose_supervisor
    from worker.service.description import describe_service
    from worker.service.keeper import ServiceKeeper
    from worker.settings import host_settings, process_environment

    settings, environment = load_settings(), process_environment()
    host = host_settings(settings)
    service = describe_service(host, environment, of_machine=of_machine)
    supervisor = choose_supervisor(environment, config_dir=host.config_dir, of_machine=of_machine)
    notes = supervisor.notes(service, environment)
    if not host.lanes:
        notes = (*notes, _NO_LANES)
    if settings.source_of("fleet.redis_url").startswith("environment"):
        notes = (*notes, _URL_NOTE)
    return supervisor, ServiceKeeper(supervisor, service, system_runner(), environment), notes


def _tell(
    supervisor: Supervisor,
    steps: Sequence[Step],
    notes: Sequence[str],
    *,
    text: str,
    dry: bool,
    as_json: bool,
) -> ExitCode:
    """Print what was, or would be, done. Exit code 4 when something was not done."""
    ok = dry or all(step.ok for step in steps)
    if as_json:
        rows = [
            {"does": step.does, "what": step.what, "ok": step.ok, "says": step.says}
            for step in steps
        ]
        head = {"manager": supervisor.name, "file": str(supervisor.file), "dryRun": dry, "ok": ok}
        print_document({**head, "steps": rows, "text": text, "notes": list(notes)})
        return ExitCode.OK if ok else ExitCode.FAILED
    for step in steps:
        words = {None: "would" if dry else "not tried", True: "done", False: "FAILED"}[step.ok]
        click.echo(f"{words}: {step.does} {step.what}{f': {step.says}' if step.says else ''}")
    if not steps:
        click.echo("nothing to do")
    if text:
        click.echo(f"\n{text}")
    _print_notes(notes)
    return ExitCode.OK if ok else ExitCode.FAILED


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        click.echo(f"note: {note}", err=True)
