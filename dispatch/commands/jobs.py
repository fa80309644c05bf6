"""`fleet-dispatch jobs`: the newest jobs, and why those that wait do wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from dispatch.cli import LOCAL_JOBS, load_named
from dispatch.commands.boundary import boundary
from dispatch.commands.output import json_option, print_document, print_table, redis_option
from dispatch.times import age_words

if TYPE_CHECKING:
    from dispatch.job_views import JobView

_EXAMPLE: Final = """\b
Example:
  fleet-dispatch jobs --limit 10
"""


@click.command(epilog=_EXAMPLE)
@click.option(
    "--limit", type=click.IntRange(1, 1_000), default=50, show_default=True, help="How many."
)
@click.option("--local", is_flag=True, help="Those of this host's journal; asks no broker.")
@redis_option
@json_option
@boundary
def command(*, limit: int, local: bool, redis_url: str | None, as_json: bool) -> None:
    """Show the newest jobs: state, host, lane, age, and why one is not further.

    A status is shown only when its result's signature held.
    """
    if local:
        load_named(LOCAL_JOBS)(limit, as_json=as_json)
        return
    from dispatch.client import FleetClient
    from dispatch.settings import load_settings

    with FleetClient.open(load_settings(flags={"fleet.redis_url": redis_url})) as client:
        views = client.jobs(limit)
    if as_json:
        print_document({"jobs": [_row(view) for view in views]})
        return
    head = ("JOB", "STATE", "LANE", "FOR", "HOST", "AGENT", "TICKET", "AGE", "WHY")
    print_table(head, [_cells(view) for view in views])


def _cells(view: JobView) -> tuple[str, ...]:
    from dispatch.hosts import HOST_LOST, state_words

    where = (view.lane, view.target or "first free", view.host)
    is_lost = view.state == HOST_LOST
    state = state_words(view.state, view.why) if is_lost else view.state
    what = (view.agent, view.ticket, age_words(view.age_s), "" if is_lost else view.why)
    return (view.job_id, state, *where, *what)


def _row(view: JobView) -> dict[str, Any]:
    return {
        "jobId": view.job_id,
        "state": view.state,
        "why": view.why,
        "host": view.host,
        "lane": view.lane,
        "target": view.target,
        "kind": view.kind,
        "agent": view.agent,
        "ticket": view.ticket,
        "ageSeconds": view.age_s,
        "mine": view.is_mine,
    }
