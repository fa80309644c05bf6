"""Waiting for several jobs under one deadline, and showing what came of each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from contracts.clock import SystemClock
from contracts.errors import ExitCode, FleetError
from dispatch.client import FleetClient
from dispatch.commands.boundary import error_document
from dispatch.plain_text import plain
from dispatch.results import JobResult


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


def wait_all(client: FleetClient, job_ids: Sequence[str], timeout_s: float | None) -> list[Waited]:
    """Wait for each of `job_ids`, `timeout_s` seconds for all together; None waits for ever."""
    clock = SystemClock()
    give_up = None if timeout_s is None else clock.monotonic() + timeout_s
    waited: list[Waited] = []
    for job_id in job_ids:
        left = None if give_up is None else max(0.0, give_up - clock.monotonic())
        try:
            waited.append(Waited(job_id=job_id, result=client.wait(job_id, left)))
        except FleetError as error:
            waited.append(Waited(job_id=job_id, error=error))
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
            summary = plain(result.run.summary, max_chars=200)
            click.echo(f"{item.job_id}  {result.host}  {result.status.value}  {summary}")
            tell_alarms(result)
        if item.error is not None:
            click.echo(f"error: {item.job_id}: {item.error}", err=True)


def tell_alarms(result: JobResult) -> None:
    """Say on stderr what came that should not have."""
    for alarm in result.alarms:
        click.echo(f"ALARM: {result.job_id}: {plain(alarm)}", err=True)
