"""`fleet-dispatch wait`: until the results of jobs are there, or the time is over."""

from __future__ import annotations

from typing import Final

import click

from contracts.errors import ExitCode
from contracts.ids import checked_job_id
from dispatch.commands.boundary import boundary
from dispatch.commands.output import json_option, print_document, redis_option
from dispatch.commands.waiting import (
    Seconds,
    give_up_option,
    tell_waited,
    wait_all,
    waited_row,
)

_EXAMPLE: Final = """\b
Example:
  fleet-dispatch wait 0123456789abcdef0123 --timeout 600
"""


@click.command(epilog=_EXAMPLE)
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
@click.option(
    "--timeout",
    "timeout_s",
    metavar="S",
    type=Seconds(),
    help="Seconds for all together; default: no limit.",
)
@give_up_option
@redis_option
@json_option
@boundary
def command(
    *,
    jobs: tuple[str, ...],
    timeout_s: float | None,
    give_up_after_s: float | None,
    redis_url: str | None,
    as_json: bool,
) -> ExitCode:
    """Wait for the results of jobs that this machine sent. The exit code is the worst of all.

    A host that does not answer is shown as host_lost and waited for. --timeout ends the wait and
    leaves the job; --give-up-after ends the job for this sender: failed, with the risk abandoned. A
    result that still comes is kept: fleet-dispatch result JOB.
    """
    from dispatch.client import FleetClient
    from dispatch.results import worst_exit_code
    from dispatch.settings import load_settings

    job_ids = list(dict.fromkeys(checked_job_id(job) for job in jobs))
    with FleetClient.open(load_settings(flags={"fleet.redis_url": redis_url})) as client:
        waited = wait_all(client, job_ids, timeout_s, give_up_after_s=give_up_after_s)
    code = worst_exit_code([item.exit_code for item in waited])
    if as_json:
        rows = [waited_row(item) for item in waited]
        print_document({"jobs": rows, "exitCode": int(code)})
    else:
        tell_waited(waited)
    return code
