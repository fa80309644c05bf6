"""`fleet-dispatch hosts`: who is there, from heartbeats; silent hosts included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from contracts.clock import SystemClock
from dispatch.commands.boundary import boundary
from dispatch.commands.output import (
    json_option,
    print_document,
    print_table,
    redis_option,
)
from dispatch.times import age_words, last_seen_words, rfc3339
from validation.inert import one_line

if TYPE_CHECKING:
    from dispatch.hosts import HostView

_EXAMPLE: Final = """\b
Example:
  fleet-dispatch hosts --json
"""


@click.command(epilog=_EXAMPLE)
@redis_option
@json_option
@boundary
def command(*, redis_url: str | None, as_json: bool) -> None:
    """Show every host that was seen or was granted keys: lanes, agents, free slots, last seen.

    live; draining: it takes no more jobs; host_lost: it does not answer; stopped: it was ended in
    order; never_seen. Lanes in which jobs wait and which no living host serves are named below.
    """
    from dispatch.client import FleetClient
    from dispatch.settings import load_settings

    with FleetClient.open(load_settings(flags={"fleet.redis_url": redis_url})) as client:
        views = client.hosts()
        unserved = client.unserved(views)
    if as_json:
        lanes = [{"lane": x.lane, "queued": x.queued, "why": x.why} for x in unserved]
        print_document({"hosts": [_row(view) for view in views], "unserved": lanes})
        return
    now = SystemClock().wall()
    head = ("HOST", "STATE", "OS", "LANES", "AGENTS", "FREE", "LAST SEEN")
    print_table(head, [_cells(view, now) for view in views])
    for view in views:
        if view.beat is not None and view.beat.note:
            click.echo(f"note: {view.name}: {one_line(view.beat.note, 500)}", err=True)
    for item in unserved:
        click.echo(f"note: {item.queued} queued: {item.why}", err=True)


def _cells(view: HostView, now: float) -> tuple[str, ...]:
    from dispatch.hosts import HOST_LOST, STOPPED, state_words

    seen = last_seen_words(view.last_seen, now)
    if view.beat is None:
        state = state_words(view.state, seen) if view.state == HOST_LOST else view.state
        if view.state == STOPPED and view.stopped_at is not None:
            state = f"stopped ({age_words(now - view.stopped_at)} ago)"
        return (view.name, state, "", ",".join(view.granted_lanes), "", "", _brief(seen))
    beat = view.beat
    agents = ", ".join(f"{name} {version}".strip() for name, version in sorted(beat.agents.items()))
    free, lanes = f"{beat.free}/{beat.slots}", ",".join(beat.lanes)
    return (view.name, view.state, beat.os, lanes, agents, free, _brief(seen))


def _brief(seen: str) -> str:
    return seen.removeprefix("last seen ")


def _row(view: HostView) -> dict[str, Any]:
    from dispatch.heartbeats import Heartbeat

    beat = view.beat or Heartbeat(host=view.name)
    return {
        "host": view.name,
        "state": view.state,
        "os": beat.os,
        "lanes": list(beat.lanes),
        "agents": beat.agents,
        "slots": beat.slots,
        "free": beat.free,
        "contractRevision": beat.contractRevision,
        "version": beat.version,
        "note": beat.note,
        "lastSeen": rfc3339(view.last_seen),
        "stoppedAt": rfc3339(view.stopped_at),
        "grantedLanes": list(view.granted_lanes),
    }
