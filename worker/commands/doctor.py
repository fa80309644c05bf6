"""`fleet-dispatch doctor`: is this installation whole, private, connected, and able to run jobs."""

from __future__ import annotations

from typing import Final

import click

from contracts.clock import SystemClock
from contracts.errors import ExitCode
from dispatch.commands.boundary import boundary
from dispatch.commands.output import json_option, print_document, print_table, redis_option

_EXAMPLE: Final = """\b
Example:
  fleet-dispatch doctor --json
"""


@click.command(epilog=_EXAMPLE)
@redis_option
@json_option
@boundary
def command(*, redis_url: str | None, as_json: bool) -> ExitCode:
    """Look at files, keys, broker, agents, disks, journal and service; change nothing.

    Each finding has a remedy. Exit code 4 when one has failed; a warning holds, and says what
    somebody should know.
    """
    from dispatch.settings import load_settings
    from runagent.process import system_runner
    from worker.diagnosis.examination import examine
    from worker.diagnosis.finding import FindingState, Machine
    from worker.settings import host_settings, process_environment

    settings = load_settings(flags={"fleet.redis_url": redis_url})
    machine = Machine(
        settings=settings,
        host=host_settings(settings),
        environment=process_environment(),
        runner=system_runner(),
        clock=SystemClock(),
    )
    findings = examine(machine)
    holds = all(item.state is not FindingState.FAILED for item in findings)
    if as_json:
        rows = [
            {"name": x.name, "state": x.state.value, "what": x.what, "remedy": x.remedy}
            for x in findings
        ]
        print_document({"checks": rows, "ok": holds})
    else:
        words = {
            FindingState.OK: "ok",
            FindingState.WARNING: "warning",
            FindingState.FAILED: "WRONG",
        }
        print_table(
            ("CHECK", "", "WHAT"),
            [
                (x.name, words[x.state], f"{x.what} ({x.remedy})" if x.remedy else x.what)
                for x in findings
            ],
        )
    return ExitCode.OK if holds else ExitCode.FAILED
