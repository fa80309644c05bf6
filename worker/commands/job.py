"""`fleet-dispatch job`: what this host's journal knows of its jobs, with or without a broker.

`jobs --local` and `result --local` lead here by name: the sender's floor does not import this one.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from contracts.clock import SystemClock
from contracts.errors import ExitCode, Refused, WaitTimedOut
from contracts.ids import checked_job_id
from dispatch.commands.boundary import boundary
from dispatch.commands.output import json_option, print_document, print_table
from dispatch.commands.sub_verbs import SubVerbs

if TYPE_CHECKING:
    from worker.journal.journal import Journal
    from worker.journal.records import JobRecord


@click.group(cls=SubVerbs, epilog="\b\nExample:\n  fleet-dispatch job show 0123456789abcdef0123\n")
def command() -> None:
    """Show what this host's journal knows of its jobs; needs no broker."""


@command.command("show", epilog="\b\nExample:\n  fleet-dispatch job show JOB --json\n")
@click.argument("job", metavar="JOB")
@json_option
@boundary
def show(*, job: str, as_json: bool) -> None:
    """Show the whole history of JOB on this host: each state with attempt, time, process and why,
    its processes, its worktree, and what its result says."""
    from worker.commands.job_rows import job_document

    job_id = checked_job_id(job)
    with _journal() as journal:
        record = _record(journal, job_id)
        document = job_document(
            record,
            journal.history(job_id),
            journal.processes.of(job_id),
            journal.trees.find(job_id),
        )
    if as_json:
        print_document(document)
    else:
        _print_job(document)


def print_local_jobs(limit: int, *, as_json: bool) -> None:
    """Print the newest jobs of this host's journal."""
    from worker.commands.job_rows import job_row

    with _journal() as journal:
        rows = [job_row(record) for record in journal.recent(limit)]
    if as_json:
        print_document({"jobs": rows})
        return
    names = ("jobId", "state", "status", "sender", "lane", "kind", "agent", "ticket", "claimedAt")
    head = ("JOB", "STATE", "STATUS", "SENDER", "LANE", "KIND", "AGENT", "TICKET", "CLAIMED")
    print_table(head, [[row[name] for name in names] for row in rows])


def print_local_result(job_id: str) -> ExitCode:
    """Print the result of a job as it stands in this host's journal; return its exit code.

    Raises Refused (`unknown_job`) for a job that this host never had, WaitTimedOut for one that has
    no result yet.
    """
    from contracts.plain_result import read_outcome
    from worker.runs.outcome import EXIT_CODES

    with _journal() as journal:
        record = _record(journal, job_id)
    if record.result is None:
        raise WaitTimedOut(
            f"there is no result of {job_id} yet: it is {record.state.value}",
            remedy=f"fleet-dispatch job show {job_id}",
        )
    print_document(json.loads(record.result))
    return EXIT_CODES[read_outcome(record.kind, record.result).status]


@contextlib.contextmanager
def _journal() -> Iterator[Journal]:
    """Open the journal that is there; looking makes none."""
    from worker.journal.journal import Journal
    from worker.settings import load_host_settings

    path = load_host_settings().journal_file
    if not path.exists():
        raise Refused(
            "this machine has no journal: nothing ever ran here",
            code="unknown_job",
            remedy="ask on the host that ran the job",
        )
    with contextlib.closing(Journal(path, SystemClock())) as journal:
        yield journal


def _record(journal: Journal, job_id: str) -> JobRecord:
    record = journal.find(job_id)
    if record is None:
        raise Refused(
            f"this host's journal has no job {job_id}",
            code="unknown_job",
            remedy="ask on the host that ran it; delivered jobs are forgotten after 7 days",
        )
    return record


def _print_job(document: dict[str, Any]) -> None:
    facts = (
        "jobId",
        "state",
        "status",
        "sender",
        "target",
        "kind",
        "agent",
        "ticket",
        "repo",
        "claimedAt",
    )
    rows: list[tuple[object, ...]] = [(name, document[name]) for name in facts if document[name]]
    rows.append(("delivered", document["deliveredAt"] or "no"))
    rows += [("worktree", document["tree"]["path"])] if document["tree"] else []
    rows += [("summary", document["result"]["summary"])] if document["result"] else []
    print_table(("WHAT", "VALUE"), rows)
    click.echo()
    steps = [
        (row["at"], row["state"], row["attempt"], row["pid"], row["why"])
        for row in document["history"]
    ]
    print_table(("AT", "STATE", "ATTEMPT", "PID", "WHY"), steps)
    if document["processes"]:
        click.echo()
        lines = [
            (row["startedAt"], row["pid"], row["role"], row["endedAt"] or "not ended")
            for row in document["processes"]
        ]
        print_table(("STARTED", "PID", "PROCESS", "ENDED"), lines)
