"""What a verb says of jobs that were just sent: one, or many; how many on a terminal meanwhile."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from contracts.errors import BulkStopped, ExitCode, FleetError
from dispatch.commands.boundary import error_document, show_error
from dispatch.commands.output import print_document
from dispatch.commands.waiting import Waited, waited_row

if TYPE_CHECKING:
    from dispatch.job_handle import JobHandle

_WORTH_COUNTING: Final = 1_000  # fewer are sent before one has read how many


def tell_jobs(jobs: list[JobHandle], *, on_stderr: bool) -> None:
    """Say which jobs there are now, one line each."""
    for job in jobs:
        where = job.target or f"lane {job.lane}"
        state = job.pushed.value.replace("_", " ")
        click.echo(f"{job.job_id}  {where}  {state}", err=on_stderr)
        if job.note:
            click.echo(f"note: {job.job_id} {job.note}", err=True)


def jobs_document(jobs: list[JobHandle], waited: list[Waited], code: ExitCode) -> dict[str, object]:
    """Return what JSON says of jobs that were just sent, and of what was waited for."""
    found = {item.job_id: waited_row(item) for item in waited}
    rows = [
        {
            "jobId": job.job_id,
            "target": job.target,
            "aud": job.aud,
            "lane": job.lane,
            "pushed": job.pushed.value,
            "note": job.note,
            **found.get(job.job_id, {}),
        }
        for job in jobs
    ]
    return {"jobs": rows, "exitCode": int(code)}


class Counter:
    """How many of `total` payloads are sent, on stderr where that is a terminal, in one line."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._shows = total >= _WORTH_COUNTING and sys.stderr.isatty()

    def show(self, done: int) -> None:
        """Say how many are done."""
        if self._shows:
            end = "\n" if done >= self._total else ""
            click.echo(f"\r{done} of {self._total} sent{end}", err=True, nl=False)


def stopped_by(interrupt: KeyboardInterrupt) -> BulkStopped | None:
    """Return how far many jobs had come when a person interrupted; None for anything else."""
    return interrupt.__cause__ if isinstance(interrupt.__cause__, BulkStopped) else None


def tell_stopped(stopped: BulkStopped, error: FleetError, *, as_json: bool) -> ExitCode:
    """Say which jobs there are of many that could not all be sent, and `error`, which ended it;
    return the exit code."""
    from dispatch.job_handle import JobHandle

    jobs = [job for several in stopped.jobs for job in several if isinstance(job, JobHandle)]
    tell_jobs(jobs, on_stderr=as_json)
    if as_json:
        document = jobs_document(jobs, [], error.exit_code)
        print_document({**document, "error": error_document(error)})
    show_error(error, as_json=False)
    return error.exit_code
