"""`fleet-dispatch doctor`: is this installation whole, private, and connected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import click

from contracts.errors import ExitCode, FleetError
from dispatch.broker_url import masked_url
from dispatch.commands.agents import agent_words, find_agents
from dispatch.commands.boundary import boundary
from dispatch.commands.output import json_option, print_document, print_table, redis_option
from dispatch.installation import Finding, check_files, check_packages, check_permissions
from dispatch.queue import FleetQueue
from dispatch.settings import Settings, load_settings

_EXAMPLE: Final = """\b
Example:
  fleet-dispatch doctor --json
"""


@click.command(epilog=_EXAMPLE)
@redis_option
@json_option
@boundary
def command(*, redis_url: str | None, as_json: bool) -> ExitCode:
    """Check files, packages, permissions, broker and agents. Exit code 4 when one check fails."""
    settings = load_settings(flags={"fleet.redis_url": redis_url})
    checks: tuple[Callable[[], Finding], ...] = (
        check_files,
        check_packages,
        lambda: check_permissions(settings.places),
        lambda: _check_broker(settings),
        lambda: _check_agents(settings),
    )
    findings = [check() for check in checks]
    if as_json:
        rows = [{"name": item.name, "ok": item.ok, "detail": item.detail} for item in findings]
        print_document({"checks": rows, "ok": all(item.ok for item in findings)})
    else:
        print_table(
            ("CHECK", "", "DETAIL"),
            [(item.name, "ok" if item.ok else "WRONG", item.detail) for item in findings],
        )
    return ExitCode.OK if all(item.ok for item in findings) else ExitCode.FAILED


def _check_broker(settings: Settings) -> Finding:
    queue = FleetQueue.connect(settings.redis_url)
    try:
        queue.ping()
    except FleetError as error:
        return Finding(name="broker", ok=False, detail=str(error))
    finally:
        queue.close()
    return Finding(name="broker", ok=True, detail=f"answers at {masked_url(settings.redis_url)}")


def _check_agents(settings: Settings) -> Finding:
    """A machine that serves no lane needs no agent."""
    try:
        found = find_agents()
    except FleetError as error:
        return Finding(name="agents", ok=False, detail=str(error))
    enough = bool(found) or not settings.host.lanes
    return Finding(name="agents", ok=enough, detail=agent_words(found))
