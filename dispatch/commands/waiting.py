"""Waiting for several jobs under one deadline, and showing what came of each."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from contracts import limits
from contracts.clock import SystemClock
from contracts.errors import ExitCode, FleetError, Interrupted
from dispatch.commands.boundary import error_document
from dispatch.commands.interrupts import noted_interrupts
from dispatch.commands.watch import Watch
from dispatch.times import rfc3339
from validation.inert import inert, one_line

if TYPE_CHECKING:
    from dispatch.client import FleetClient
    from dispatch.results import JobResult

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """What a wait ended with: a verified result, or the error that stands for its absence. `notes`
    are what was said of the job meanwhile."""

    job_id: str
    result: JobResult | None = None
    error: FleetError | None = None
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """Return the exit code of the one or the other."""
        if self.result is not None:
            return self.result.exit_code
        return ExitCode.BUG if self.error is None else self.error.exit_code


class Seconds(click.FloatRange):
    """A span of time on the command line: a number from `least` to `most`, and a finite one."""

    def __init__(self, least: float = 0, most: float | None = None) -> None:
        super().__init__(min=least, max=most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the seconds; click says what is wrong."""
        seconds = super().convert(value, param, ctx)
        if not math.isfinite(seconds):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return seconds


def give_up_option(function: _F) -> _F:
    """Add `--give-up-after` as `give_up_after_s`."""
    words = (
        "So many seconds from now this sender ends a job as abandoned. Default: 24 hours after it "
        "was sent, unless it still waits in its queue or a living host has it."
    )
    return click.option(
        "--give-up-after",
        "give_up_after_s",
        metavar="S",
        type=Seconds(1, limits.GIVE_UP_MAX_S),
        help=words,
    )(function)


def wait_all(
    client: FleetClient,
    job_ids: Sequence[str],
    timeout_s: float | None,
    *,
    give_up_after_s: float | None = None,
    told: Mapping[str, str] | None = None,
) -> list[Waited]:
    """Wait for each of `job_ids`, `timeout_s` seconds for all together; None waits for ever.

    What becomes of them meanwhile is said on stderr, once; `told` is what was said already. Raises
    Interrupted when a person ends the wait; the jobs go on.
    """
    try:
        with noted_interrupts() as interrupts:
            watch = Watch(client, job_ids, told or {}, interrupts.check)
            return _wait_each(client, job_ids, timeout_s, give_up_after_s, watch, interrupts.check)
    except KeyboardInterrupt as interrupt:
        raise Interrupted(
            "interrupted: nobody waits any more, but the job goes on",
            remedy=f"fleet-dispatch wait {' '.join(job_ids)}",
        ) from interrupt


def _wait_each(
    client: FleetClient,
    job_ids: Sequence[str],
    timeout_s: float | None,
    give_up_after_s: float | None,
    watch: Watch,
    check: Callable[[], None],
) -> list[Waited]:
    clock = SystemClock()
    for job_id in job_ids:
        with contextlib.suppress(FleetError):  # said again when its turn comes
            client.waits.begin(job_id, give_up_after_s)
    give_up = None if timeout_s is None else clock.monotonic() + timeout_s
    client.waits.gather(job_ids, timeout_s, on_look=watch.look, on_tick=check)
    waited: list[Waited] = []
    for job_id in job_ids:
        left = None if give_up is None else max(0.0, give_up - clock.monotonic())
        result, error = None, None
        try:
            result = client.wait(job_id, left, on_look=watch.look)
        except FleetError as problem:
            error = problem
        notes = watch.close(job_id)
        waited.append(Waited(job_id=job_id, result=result, error=error, notes=notes))
    return waited


def waited_row(item: Waited) -> dict[str, Any]:
    """Return what JSON says of one job: its status, host and whole result, or the error."""
    row: dict[str, Any] = {"jobId": item.job_id, "exitCode": int(item.exit_code)}
    row["notes"] = list(item.notes)
    if item.result is not None:
        row["status"] = item.result.status.value
        row["host"] = item.result.host
        row["result"] = json.loads(item.result.text)
        row["alarms"] = list(item.result.alarms)
        row |= receipt_fields(item.result)
    if item.error is not None:
        row["error"] = error_document(item.error)
    return row


def receipt_fields(result: JobResult) -> dict[str, Any]:
    """Return what JSON says of our own end of a job, {} when we did not end it."""
    if result.receipt is None:
        return {}
    receipt = {"code": result.receipt.code.value, "at": rfc3339(result.receipt.at)}
    return {"receipt": receipt, "note": result.note}


def tell_waited(waited: Sequence[Waited]) -> None:
    """Say in one line per job how it ended; alarms and errors on stderr."""
    for item in waited:
        if item.result is not None:
            result = item.result
            summary = one_line(result.outcome.summary, 200)
            host = result.host or "this sender"
            click.echo(f"{item.job_id}  {host}  {result.status.value}  {summary}")
            tell_receipt(result)
            _tell_where(result)
            tell_alarms(result)
        if item.error is not None:
            text = str(item.error)
            named = text if item.job_id in text else f"{item.job_id}: {text}"
            click.echo(f"error: {inert(named)}", err=True)


def _tell_where(result: JobResult) -> None:
    """Say on stderr where the work stands, and whether somebody has to look at it."""
    if result.outcome.worktreePath:
        place = one_line(result.outcome.worktreePath, 4_096, keep_spaces=True)
        review = "needs review; " if result.outcome.needs_human_review else ""
        click.echo(
            f"note: {result.job_id}: {review}the work is in {place} on {result.host} "
            f"(all of it: fleet-dispatch result {result.job_id})",
            err=True,
        )


def tell_receipt(result: JobResult) -> None:
    """Say on stderr that a result came after we had ended its job ourselves."""
    if result.host and result.note:
        click.echo(f"note: {result.job_id}: {result.note}; this result came later", err=True)


def tell_alarms(result: JobResult) -> None:
    """Say on stderr what came that should not have."""
    for alarm in result.alarms:
        click.echo(f"ALARM: {result.job_id}: {one_line(alarm, 500)}", err=True)
