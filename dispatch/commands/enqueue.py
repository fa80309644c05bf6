"""`fleet-dispatch enqueue`: check, sign and queue a job for named hosts or for a lane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import click

from contracts import limits
from contracts.errors import BulkStopped, ExitCode, Interrupted, InvalidRequest, Problem
from contracts.kinds import Kind
from dispatch.commands.boundary import boundary
from dispatch.commands.interrupts import noted_interrupts
from dispatch.commands.output import json_option, print_document, redis_option
from dispatch.commands.payload_file import read_payload, read_payloads
from dispatch.commands.sent_jobs import (
    Counter,
    jobs_document,
    stopped_by,
    tell_jobs,
    tell_stopped,
)
from dispatch.commands.waiting import (
    Seconds,
    give_up_option,
    tell_waited,
    wait_all,
)

if TYPE_CHECKING:
    from contracts.strict_json import JsonValue
    from dispatch.client import FleetClient
    from dispatch.job_handle import JobHandle

_EXAMPLE: Final = """\b
Example:
  fleet-dispatch enqueue --lane MAIN --payload-file job.json --wait 3600
  fleet-dispatch enqueue --lane MAIN --payload-file job.json --idempotency-key nightly-7
  echo '{"agent":"codex","task":"…","repo":"/home/me/src/app","ticket":"FIX-1"}' |
    fleet-dispatch enqueue --targets GAMINGPC,LAPTOP --lane MAIN --payload-file -
  fleet-dispatch enqueue --lane MAIN --payload-file jobs.ndjson --ndjson
"""


@click.command(epilog=_EXAMPLE)
@click.option("--lane", required=True, metavar="NAME", help="Its lane.")
@click.option("--payload-file", required=True, metavar="FILE", help="Its JSON; - for stdin.")
@click.option(
    "--ndjson",
    "is_ndjson",
    is_flag=True,
    help="Many jobs: one payload on each line, 10 000 at most; all are checked before one is sent.",
)
@click.option("--kind", default=Kind.RUN_AGENT.value, show_default=True, help="The kind of job.")
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
    help="Queue once under this key: the same command again finds the same job. Kept 90 days. "
    "With --ndjson the n-th payload has the key KEY#n.",
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
    is_ndjson: bool,
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
    from dispatch.client import FleetClient
    from dispatch.results import worst_exit_code
    from dispatch.settings import load_settings

    if is_ndjson and resend_lane:
        raise InvalidRequest([Problem("--resend-lane", "is for one job", "leave out --ndjson")])
    named = None if targets is None else [name.strip() for name in targets.split(",")]
    terms = _Terms(kind, lane, named, ttl_s, key, give_up_after_s)
    payload = {} if is_ndjson else read_payload(payload_file)
    payloads, places = read_payloads(payload_file) if is_ndjson else ([], [])
    settings = load_settings(flags={"fleet.redis_url": redis_url})
    with FleetClient.open(settings) as client:
        try:
            if is_ndjson:
                jobs = _send_lines(client, payloads, places, terms)
            else:
                jobs = _send_one(client, payload, terms, resend_lane=resend_lane)
        except BulkStopped as error:
            return tell_stopped(error, error, as_json=as_json)
        except KeyboardInterrupt as interrupt:
            stopped = stopped_by(interrupt)
            if stopped is None:
                raise
            told = Interrupted(stopped.message, remedy=stopped.remedy)
            return tell_stopped(stopped, told, as_json=as_json)
        tell_jobs(jobs, on_stderr=as_json)  # at once: a broken-off wait leaves the ids
        notes = {job.job_id: job.note for job in jobs}
        waited = [] if wait_s is None else wait_all(client, list(notes), wait_s, told=notes)
    code = worst_exit_code([item.exit_code for item in waited])
    if as_json:
        print_document(jobs_document(jobs, waited, code))
    else:
        tell_waited(waited)
    return code


class _Terms(NamedTuple):
    """What is said of each job."""

    kind: str
    lane: str
    targets: list[str] | None
    ttl_s: int
    key: str | None
    give_up_after_s: float | None


def _send_one(
    client: FleetClient, payload: dict[str, JsonValue], terms: _Terms, *, resend_lane: bool
) -> list[JobHandle]:
    return client.enqueue(
        payload,
        kind=terms.kind,
        lane=terms.lane,
        targets=terms.targets,
        ttl_s=terms.ttl_s,
        idempotency_key=terms.key,
        give_up_after_s=terms.give_up_after_s,
        resend_lane=resend_lane,
    )


def _send_lines(
    client: FleetClient,
    payloads: list[dict[str, JsonValue] | InvalidRequest],
    places: list[str],
    terms: _Terms,
) -> list[JobHandle]:
    counter = Counter(len(payloads))
    with noted_interrupts() as interrupts:

        def told(done: int) -> None:
            counter.show(done)
            interrupts.check()

        sent = client.enqueue_many(
            payloads,
            kind=terms.kind,
            lane=terms.lane,
            targets=terms.targets,
            ttl_s=terms.ttl_s,
            idempotency_key=terms.key,
            give_up_after_s=terms.give_up_after_s,
            places=places,
            on_batch=told,
        )
    return [job for several in sent for job in several]
