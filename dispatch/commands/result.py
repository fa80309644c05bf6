"""`fleet-dispatch result`: the verified result of one job, as the host wrote it."""

from __future__ import annotations

import contextlib
import json
from typing import Final

import click

from contracts.errors import ExitCode, FleetError, Refused, Unavailable, WaitTimedOut
from contracts.ids import checked_job_id
from dispatch.cli import LOCAL_RESULT, load_named
from dispatch.commands.boundary import boundary
from dispatch.commands.output import json_option, print_document, redis_option
from dispatch.commands.waiting import receipt_fields, tell_alarms, tell_receipt

_EXAMPLE: Final = """\b
Example:
  fleet-dispatch result 0123456789abcdef0123
"""


@click.command(epilog=_EXAMPLE)
@click.argument("job", metavar="JOB")
@click.option("--local", is_flag=True, help="As this host's journal has it; asks no broker.")
@redis_option
@json_option
@boundary
def command(*, job: str, local: bool, redis_url: str | None, as_json: bool) -> ExitCode:  # noqa: ARG001 - the output is JSON either way; the boundary reads it
    """Print the run_agent result of JOB as JSON. The exit code is that of its status.

    No result yet: exit code 3. A second, different result is an alarm on stderr and in `alarms`. A
    job that this sender ended itself has `receipt`; a result that came later is shown with it. On
    the host that ran it the journal answers when the broker or the sender's record does not.
    """
    job_id = checked_job_id(job)
    if local:
        return _local_result(job_id)
    from dispatch.client import FleetClient
    from dispatch.settings import load_settings

    try:
        with FleetClient.open(load_settings(flags={"fleet.redis_url": redis_url})) as client:
            found = client.result(job_id)
    except (Refused, Unavailable) as error:
        with contextlib.suppress(FleetError):  # not ours either: the first answer stands
            return _local_result(job_id)
        raise error
    if found is None:
        raise WaitTimedOut(
            f"there is no result of {job_id} yet", remedy=f"fleet-dispatch wait {job_id}"
        )
    document = json.loads(found.text)
    if found.alarms:
        document["alarms"] = list(found.alarms)
    document |= receipt_fields(found)
    print_document(document)
    tell_receipt(found)
    tell_alarms(found)
    return found.exit_code


def _local_result(job_id: str) -> ExitCode:
    code: ExitCode = load_named(LOCAL_RESULT)(job_id)
    return code
