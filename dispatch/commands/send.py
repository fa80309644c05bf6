"""`fleet-dispatch send`: check and sign a job and hand it to one host over HTTP. No broker."""

from __future__ import annotations

from typing import Final

import click

from contracts import limits
from contracts.errors import ExitCode
from contracts.kinds import Kind
from dispatch.commands.boundary import boundary
from dispatch.commands.output import json_option, print_document
from dispatch.commands.payload_file import read_payload
from dispatch.commands.sent_jobs import jobs_document, tell_jobs
from dispatch.commands.waiting import Seconds, give_up_option, tell_waited, wait_all

_EXAMPLE: Final = """\b
Example:
  fleet-dispatch send --target GAMINGPC --lane MAIN --payload-file job.json --wait 3600
  fleet-dispatch send --target https://gamingpc.lan:8460 --cacert ca.pem --lane MAIN \\
    --payload-file job.json --idempotency-key nightly-7
"""


@click.command(epilog=_EXAMPLE)
@click.option("--target", required=True, metavar="NAME|URL", help="The host, or its door.")
@click.option("--lane", required=True, metavar="NAME", help="Its lane.")
@click.option("--payload-file", required=True, metavar="FILE", help="Its JSON; - for stdin.")
@click.option("--kind", default=Kind.RUN_AGENT.value, show_default=True, help="The kind of job.")
@click.option("--wait", "wait_s", metavar="S", type=Seconds(), help="Wait for the result.")
@click.option(
    "--ttl",
    "ttl_s",
    metavar="S",
    type=int,
    default=limits.JOB_TTL_DEFAULT_S,
    show_default=True,
    help="How long the host may take it.",
)
@give_up_option
@click.option(
    "--idempotency-key",
    "key",
    metavar="KEY",
    default=None,
    help="Send once under this key: the same command again finds the same job. Kept 90 days.",
)
@click.option(
    "--cacert", default="", metavar="FILE", help="Whom to trust for the door's certificate, PEM."
)
@json_option
@boundary
def command(
    *,
    target: str,
    lane: str,
    payload_file: str,
    kind: str,
    wait_s: float | None,
    ttl_s: int,
    give_up_after_s: float | None,
    key: str | None,
    cacert: str,
    as_json: bool,
) -> ExitCode:
    """Sign a job and hand it to a host's HTTP door. No broker is needed, now or later.

    A NAME has its address in config.toml: [hosts.NAME] url. When this returns, the job is on the
    host's disk; wait, result, jobs and cancel find it under its id.
    """
    from dispatch.client import FleetClient
    from dispatch.results import worst_exit_code
    from dispatch.settings import load_settings

    payload = read_payload(payload_file)
    with FleetClient.open(load_settings()) as client:
        job = client.send(
            payload,
            target=target,
            kind=kind,
            lane=lane,
            ttl_s=ttl_s,
            idempotency_key=key,
            give_up_after_s=give_up_after_s,
            cacert=cacert,
        )
        tell_jobs([job], on_stderr=as_json)  # at once: a wait that is broken off leaves the id
        told = {job.job_id: job.note}
        waited = [] if wait_s is None else wait_all(client, list(told), wait_s, told=told)
    code = worst_exit_code([item.exit_code for item in waited])
    if as_json:
        print_document(jobs_document([job], waited, code))
    else:
        tell_waited(waited)
    return code
