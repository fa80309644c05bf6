"""`fleet-dispatch sweep`: see to the jobs that this machine sent and that have no end yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from contracts.errors import InvalidRequest, Problem
from contracts.ids import checked_job_id
from dispatch.commands.boundary import boundary
from dispatch.commands.output import json_option, print_document, redis_option

_EXAMPLE: Final = """\b
Example:
  fleet-dispatch sweep
  fleet-dispatch sweep 0123456789abcdef0123 --resend-lane
"""


@click.command(epilog=_EXAMPLE)
@click.argument("jobs", metavar="[JOB...]", nargs=-1)
@click.option(
    "--resend-lane",
    is_flag=True,
    help="Send these lane jobs again though a host may have started them (claim unknown).",
)
@redis_option
@json_option
@boundary
def command(
    *, jobs: tuple[str, ...], resend_lane: bool, redis_url: str | None, as_json: bool
) -> None:
    """Push again what was lost on its way, and end what is expired or given up.

    `wait` and `jobs` do the same by themselves; this is for a timer. At most 50 jobs a call, those
    that were not looked at for longest first. With JOBs only these are sent again, if no host has
    them; with --resend-lane also those of a lane that a host may have started before the broker
    lost its data: another host may then start them a second time.
    """
    from dispatch.client import FleetClient
    from dispatch.settings import load_settings

    if resend_lane and not jobs:
        problem = Problem("--resend-lane", "needs the jobs that it is meant for", "name them")
        raise InvalidRequest([problem])
    job_ids = [checked_job_id(job) for job in jobs]
    with FleetClient.open(load_settings(flags={"fleet.redis_url": redis_url})) as client:
        if job_ids:
            rows = [(i, client.resend(i, resend_lane=resend_lane).value) for i in job_ids]
        else:
            rows = [(item.job_id, item.did.value) for item in client.sweep()]
    _print(rows, as_json=as_json)


def _print(rows: Sequence[tuple[str, str]], *, as_json: bool) -> None:
    if as_json:
        print_document({"jobs": [{"jobId": job_id, "did": did} for job_id, did in rows]})
        return
    for job_id, did in rows:
        click.echo(f"{job_id}  {did.replace('_', ' ')}")
