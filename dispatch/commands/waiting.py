"""Waiting for several jobs under one deadline, and showing what came of each."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from contracts.clock import SystemClock
from contracts.errors import ExitCode, FleetError, Interrupted
from dispatch.client import FleetClient
from dispatch.commands.boundary import error_document
from dispatch.results import JobResult
from validation.inert import inert, one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """What a wait ended with: a verified result, or the error that stands for its absence."""

    job_id: str
    result: JobResult | None = None
    error: FleetError | None = None

    @property
    def exit_code(self) -> ExitCode:
        """Return the exit code of the one or the other."""
        if self.result is not None:
            return self.result.exit_code
        return ExitCode.BUG if self.error is None else self.error.exit_code


class Seconds(click.FloatRange):
    """A span of time on the command line: a number from 0, and a finite one."""

    def __init__(self) -> None:
        super().__init__(min=0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the seconds; click says what is wrong."""
        seconds = super().convert(value, param, ctx)
        if not math.isfinite(seconds):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return seconds


def wait_all(client: FleetClient, job_ids: Sequence[str], timeout_s: float | None) -> list[Waited]:
    """Wait for each of `job_ids`, `timeout_s` seconds for all together; None waits for ever.

    Raises Interrupted when a person ends the wait; the jobs go on.
    """
    clock = SystemClock()
    give_up = None if timeout_s is None else clock.monotonic() + timeout_s
    waited: list[Waited] = []
    for job_id in job_ids:
        left = None if give_up is None else max(0.0, give_up - clock.monotonic())
        try:
            waited.append(Waited(job_id=job_id, result=client.wait(job_id, left)))
        except FleetError as error:
            waited.append(Waited(job_id=job_id, error=error))
        except KeyboardInterrupt as error:
            raise Interrupted(
                "interrupted: nobody waits any more, but the job goes on",
                remedy=f"fleet-dispatch wait {' '.join(job_ids)}",
            ) from error
    return waited


def waited_row(item: Waited) -> dict[str, Any]:
    """Return what JSON says of one job: its status, host and whole result, or the error."""
    row: dict[str, Any] = {"jobId": item.job_id, "exitCode": int(item.exit_code)}
    if item.result is not None:
        row["status"] = item.result.status.value
        row["host"] = item.result.host
        row["result"] = json.loads(item.result.text)
        row["alarms"] = list(item.result.alarms)
    if item.error is not None:
        row["error"] = error_document(item.error)
    return row


def tell_waited(waited: Sequence[Waited]) -> None:
    """Say in one line per job how it ended; alarms and errors on stderr."""
    for item in waited:
        if item.result is not None:
            result = item.result
            summary = one_line(result.run.summary, 200)
            click.echo(f"{item.job_id}  {result.host}  {result.status.value}  {summary}")
            _tell_where(result)
            tell_alarms(result)
        if item.error is not None:
            text = str(item.error)
            named = text if item.job_id in text else f"{item.job_id}: {text}"
            click.echo(f"error: {inert(named)}", err=True)


def _tell_where(result: JobResult) -> None:
    """Say on stderr where the work stands, and whether somebody has to look at it."""
    if result.run.worktreePath:
        place = one_line(result.run.worktreePath, 4_096, keep_spaces=True)
        review = "needs review; " if result.run.needs_human_review else ""
        click.echo(
            f"note: {result.job_id}: {review}the work is in {place} on {result.host} "
            f"(all of it: fleet-dispatch result {result.job_id})",
            err=True,
        )


def tell_alarms(result: JobResult) -> None:
    """Say on stderr what came that should not have."""
    for alarm in result.alarms:
        click.echo(f"ALARM: {result.job_id}: {one_line(alarm, 500)}", err=True)
