"""`fleet-dispatch cancel`: take jobs back, and end what runs of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from contracts.errors import ExitCode
from contracts.ids import checked_job_id
from dispatch.commands.boundary import boundary
from dispatch.commands.output import json_option, print_document, redis_option
from dispatch.commands.waiting import Seconds, Waited, tell_waited, wait_all, waited_row
from validation.inert import one_line

if TYPE_CHECKING:
    from dispatch.cancelling import Cancelled

_EXAMPLE: Final = """\b
Example:
  fleet-dispatch cancel 0123456789abcdef0123 --why "the plan changed" --wait 120
"""


@click.command(epilog=_EXAMPLE)
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
@click.option("--why", default="", metavar="TEXT", help="Shown with the result; a sentence.")
@click.option(
    "--wait",
    "wait_s",
    metavar="S",
    type=Seconds(),
    help="Wait so many seconds for the ends of all; default: do not wait.",
)
@redis_option
@json_option
@boundary
def command(
    *,
    jobs: tuple[str, ...],
    why: str,
    wait_s: float | None,
    redis_url: str | None,
    as_json: bool,
) -> ExitCode:
    """Take back jobs that this machine sent.

    One that waits never starts; one that runs is stopped with all it started, keeps its work, and
    ends as failed with the risk cancelled. Exit code 0: each is ended or on its way to it, one that
    had ended before included; 2: the broker is away, the order is kept and sent later; 3: with
    --wait, an end did not come in time.
    """
    from dispatch.cancelling import CancelState
    from dispatch.client import FleetClient
    from dispatch.settings import load_settings

    job_ids = list(dict.fromkeys(checked_job_id(job) for job in jobs))
    with FleetClient.open(load_settings(flags={"fleet.redis_url": redis_url})) as client:
        done = [client.cancel(job_id, why=why) for job_id in job_ids]
        waited: list[Waited] = []
        if wait_s is not None:
            is_open = (CancelState.CANCELLING, CancelState.KEPT)
            pending = [item.job_id for item in done if item.state in is_open]
            waited = wait_all(client, pending, wait_s)
    code = _exit_code(done, waited)
    if as_json:
        print_document({"jobs": [_row(item, waited) for item in done], "exitCode": int(code)})
        return code
    for item in done:
        note = one_line(item.note, 500)
        click.echo(f"{item.job_id}  {item.state.value.replace('_', ' ')}  {note}".rstrip())
    tell_waited(waited)
    return code


def _exit_code(done: list[Cancelled], waited: list[Waited]) -> ExitCode:
    """Return the worst of all: an end that came, whatever its status, is what was asked for."""
    from dispatch.cancelling import CancelState

    ended = {item.job_id for item in waited if item.result is not None}
    late = [item.error for item in waited if item.error is not None]
    if late:
        return late[0].exit_code
    kept = [x for x in done if x.state is CancelState.KEPT and x.job_id not in ended]
    return ExitCode.REFUSED if kept else ExitCode.OK


def _row(item: Cancelled, waited: list[Waited]) -> dict[str, Any]:
    row: dict[str, Any] = {"jobId": item.job_id, "state": item.state.value, "note": item.note}
    ends = [waited_row(end) for end in waited if end.job_id == item.job_id]
    return row | ({"end": ends[0]} if ends else {})
