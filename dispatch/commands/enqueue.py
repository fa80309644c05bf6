"""`fleet-dispatch enqueue`: check, sign and queue a job for named hosts or for a lane."""

from __future__ import annotations

from typing import Final

import click

from contracts import limits
from contracts.errors import ExitCode
from contracts.run_agent import KIND
from dispatch.client import FleetClient
from dispatch.commands.boundary import boundary
from dispatch.commands.output import json_option, print_document, redis_option
from dispatch.commands.payload_file import read_payload
from dispatch.commands.waiting import (
    Seconds,
    Waited,
    give_up_option,
    tell_waited,
    wait_all,
    waited_row,
)
from dispatch.job_handle import JobHandle
from dispatch.results import worst_exit_code
from dispatch.settings import load_settings

_EXAMPLE: Final = """\b
Example:
  fleet-dispatch enqueue --lane MAIN --payload-file job.json --wait 3600
  fleet-dispatch enqueue --lane MAIN --payload-file job.json --idempotency-key nightly-7
  echo '{"agent":"codex","task":"…","repo":"/home/me/src/app","ticket":"FIX-1"}' |
    fleet-dispatch enqueue --targets GAMINGPC,LAPTOP --lane MAIN --payload-file -
"""


@click.command(epilog=_EXAMPLE)
@click.option("--lane", required=True, metavar="NAME", help="Its lane.")
@click.option("--payload-file", required=True, metavar="FILE", help="Its JSON; - for stdin.")
@click.option("--kind", default=KIND, show_default=True, help="The kind of job.")
@click.option(
    "--targets", metavar="A,B", default=None, help="One job for each host; default: the first free."
)
@click.option("--wait", "wait_s", metavar="S", type=Seconds(), help="Wait for the results.")
@click.option(
    "--ttl",
    "ttl_s",
    metavar="S",
    type=int,
    default=limits.JOB_TTL_DEFAULT_S,
    show_default=True,
    help="How long it may wait for a host.",
)
@give_up_option
@click.option(
    "--idempotency-key",
    "key",
    metavar="KEY",
    default=None,
    help="Queue once under this key: the same command again finds the same job. Kept 90 days.",
)
@click.option(
    "--resend-lane",
    is_flag=True,
    help="With a key: send a lane's job again though a host may have started it (claim unknown).",
)
@redis_option
@json_option
@boundary
def command(
    *,
    lane: str,
    payload_file: str,
    kind: str,
    targets: str | None,
    wait_s: float | None,
    ttl_s: int,
    give_up_after_s: float | None,
    key: str | None,
    resend_lane: bool,
    redis_url: str | None,
    as_json: bool,
) -> ExitCode:
    """Sign a job and queue it: one per target, or one for the first free host of the lane.

    Everything is checked before anything is queued. With --wait the exit code is the worst of all.
    --give-up-after is kept with the job: the next wait, jobs or sweep after that moment ends it.
    """
    payload = read_payload(payload_file)
    named = None if targets is None else [name.strip() for name in targets.split(",")]
    settings = load_settings(flags={"fleet.redis_url": redis_url})
    with FleetClient.open(settings) as client:
        jobs = client.enqueue(
            payload,
            kind=kind,
            lane=lane,
            targets=named,
            ttl_s=ttl_s,
            idempotency_key=key,
            give_up_after_s=give_up_after_s,
            resend_lane=resend_lane,
        )
        tell_jobs(jobs, on_stderr=as_json)  # at once: a broken-off wait leaves the ids
        told = {job.job_id: job.note for job in jobs}
        waited = [] if wait_s is None else wait_all(client, list(told), wait_s, told=told)
    code = worst_exit_code([item.exit_code for item in waited])
    if as_json:
        print_document(jobs_document(jobs, waited, code))
    else:
        tell_waited(waited)
    return code


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
