"""`fleet-dispatch events`: what an agent did, line by line, while it does it or later."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from contracts.clock import Clock, SystemClock
from contracts.errors import ExitCode, FleetError, Refused, Unavailable
from contracts.ids import checked_job_id
from dispatch.cli import LOCAL_EVENTS, load_named
from dispatch.commands.boundary import boundary
from dispatch.commands.output import json_option, redis_option
from validation.inert import inert_json, one_line

if TYPE_CHECKING:
    from contracts.events import JobEvent
    from dispatch.client import FleetClient
    from dispatch.events import EventFeed

_EXAMPLE: Final = """\b
Examples:
  fleet-dispatch events 0123456789abcdef0123 --follow
  fleet-dispatch events 0123456789abcdef0123 --from 200 --json
"""
_LOOK_S: Final = 0.5
_ANSWER_S: Final = 15.0  # a host looks at what it is asked every few seconds
_ASK_AGAIN_S: Final = 5.0


@click.command(epilog=_EXAMPLE)
@click.argument("job", metavar="JOB")
@click.option("--follow", is_flag=True, help="Go on until the job has ended.")
@click.option(
    "--from",
    "from_seq",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="SEQ",
    help="Begin with this number.",
)
@click.option("--local", is_flag=True, help="As this host's own log has it; asks no broker.")
@redis_option
@json_option
@boundary
def command(
    *, job: str, follow: bool, from_seq: int, local: bool, redis_url: str | None, as_json: bool
) -> ExitCode:
    """Print the events of JOB in their order: one line each, or one JSON object each (--json).

    Those of a queued job come from the broker, signed by its host, and what the broker does not
    hold any more from the host itself. On the host, and for `run-agent`, from the host's own log.
    """
    from dispatch.client import FleetClient
    from dispatch.settings import load_settings

    job_id, feed = checked_job_id(job), None
    if not local:
        try:
            with FleetClient.open(load_settings(flags={"fleet.redis_url": redis_url})) as client:
                feed = client.events(job_id, from_seq)
                is_done = partial(_has_result, client, job_id)
                show_events(events_of(feed, follow=follow, is_done=is_done), as_json)
                return ExitCode.OK
        except (Refused, Unavailable) as error:
            with contextlib.suppress(FleetError):  # not ours either: the first answer stands
                next_seq = from_seq if feed is None else feed.next_seq  # each one once
                _show_local(job_id, next_seq, follow=follow, as_json=as_json)
                return ExitCode.OK
            raise error
    _show_local(job_id, from_seq, follow=follow, as_json=as_json)
    return ExitCode.OK


def _show_local(job_id: str, from_seq: int, *, follow: bool, as_json: bool) -> None:
    show_events(load_named(LOCAL_EVENTS)(job_id, from_seq, follow=follow), as_json)


def _has_result(client: FleetClient, job_id: str) -> bool:
    try:
        return client.result(job_id) is not None
    except FleetError:
        return False  # nobody to ask just now


def events_of(
    feed: EventFeed, *, follow: bool, is_done: Callable[[], bool], clock: Clock | None = None
) -> Iterator[JobEvent]:
    """Yield the events of `feed`; without `follow` those that the host has by now.

    The host is asked where the broker has a gap, or nothing, and for the last ones of a job that
    `is_done`. Raises Unavailable when it does not answer.
    """
    clock, never = clock or SystemClock(), threading.Event()
    asked_at, waiting_since, has_any = float("-inf"), clock.monotonic(), False
    looked_at, done = float("-inf"), False
    while True:
        found = feed.read()
        yield from found
        told_notes(feed)
        now = clock.monotonic()
        has_any = has_any or bool(found)
        if found:
            waiting_since = now
        if feed.has_ended or (has_any and not follow and not feed.has_gap and not found):
            return
        if follow and not done and now - max(waiting_since, looked_at) >= _ASK_AGAIN_S:
            looked_at, done = now, is_done()
            waiting_since = now if done else waiting_since  # its last events may be on their way
        is_due = feed.has_gap or not has_any or done
        if is_due and now - asked_at >= _ASK_AGAIN_S and feed.ask():
            asked_at = now
        if is_due and (done or not follow) and now - waiting_since >= _ANSWER_S:
            raise Unavailable(
                "the broker holds no events from there on, and the host did not answer",
                remedy="try again when it runs, or look on the host: events JOB --local",
            )
        clock.wait(never, _LOOK_S if not found else 0.0)


def told_notes(feed: EventFeed) -> None:
    """Say on stderr what was dropped."""
    for note in feed.notes:
        click.echo(f"ALARM: {one_line(note, 500)}", err=True)
    feed.notes.clear()


def show_events(events: Iterator[JobEvent], as_json: bool) -> None:  # noqa: FBT001 - the option itself
    """Print events as they come."""
    for event in events:
        if as_json:
            click.echo(inert_json(event.model_dump_json()))
        else:
            click.echo(event_line(event))


def event_line(event: JobEvent) -> str:
    """Return one event as people read it: number, time, kind, words."""
    from contracts.events import EventKind

    words = event.text
    if event.kind == EventKind.TOOL_CALL:
        words = f"{event.text} {event.data.get('input', '')}"
    if event.kind == EventKind.USAGE:
        words = f"input {event.data.get('input')}, output {event.data.get('output')}"
    if event.kind == EventKind.SESSION:
        words = str(event.data.get("sessionId", ""))
    time, kind = one_line(event.time, 40), one_line(event.kind, 20)
    return f"{event.seq:>6}  {time}  {kind:<12}  {one_line(words, 300)}"
