"""`fleet-dispatch worktrees`: what jobs left on this machine, and what becomes of it.

Shows and changes the trees of this host's register alone. What an agent wrote is shown inert on a
terminal, and byte for byte when it goes elsewhere.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from contracts.clock import SystemClock
from dispatch.commands.boundary import boundary
from dispatch.commands.output import json_option, print_document, print_table
from dispatch.commands.sub_verbs import SubVerbs
from dispatch.times import age_words
from validation.inert import inert

if TYPE_CHECKING:
    from worker.settings import HostSettings
    from worker.trees.collector import Collection
    from worker.trees.desk import TreeDesk

_KEPT_BY: Final = "a person keeps it"


@click.group(
    cls=SubVerbs,
    epilog="""\b
Example:
  fleet-dispatch worktrees list
  fleet-dispatch worktrees diff JOB | git apply
  fleet-dispatch worktrees remove JOB
  fleet-dispatch worktrees gc --dry-run
""",
)
def command() -> None:
    """Show, keep, remove, restore and collect the worktrees that jobs left on this machine.

    JOB is a job's id, or the beginning of one.
    """


@contextlib.contextmanager
def _desk() -> Iterator[tuple[TreeDesk, HostSettings]]:
    from runagent.process import system_runner
    from worker.journal.journal import Journal
    from worker.settings import load_host_settings
    from worker.trees.desk import open_desk

    settings, clock = load_host_settings(), SystemClock()
    with contextlib.closing(Journal(settings.journal_file, clock)) as journal:
        yield open_desk(settings, journal, runner=system_runner(), clock=clock), settings


@command.command("list", epilog="\b\nExample:\n  fleet-dispatch worktrees list --json\n")
@json_option
@boundary
def show_list(*, as_json: bool) -> None:
    """Show every worktree: its job, ticket, state, size and age, and what it holds."""
    from worker.commands.tree_rows import tree_row

    with _desk() as (desk, settings):
        rows = [tree_row(view, settings.worktrees) for view in desk.survey.view_all()]
    if as_json:
        print_document({"worktrees": rows})
        return
    head = ("JOB", "TICKET", "STATE", "SIZE", "AGE", "HOLDS", "PATH")
    print_table(head, [_cells(row) for row in rows])


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    from worker.commands.tree_rows import size_words

    size, age = size_words(row["bytes"]), age_words(row["ageSeconds"])
    states = ", ".join(row["states"]).replace("_", " ")
    return (row["jobId"], row["ticket"], states, size, age, row["holds"], row["path"])


@command.command(epilog="\b\nExample:\n  fleet-dispatch worktrees show JOB --json\n")
@click.argument("job")
@json_option
@boundary
def show(*, job: str, as_json: bool) -> None:
    """Show all that is known of one worktree, with the files that differ from its base."""
    from runagent.sandbox.box_folder import commits_in_box
    from worker.commands.tree_rows import tree_row

    with _desk() as (desk, settings):
        record = desk.find(job)
        row = tree_row(desk.survey.view(record), settings.worktrees, with_files=True)
        row["commitsInBox"] = commits_in_box(str(settings.runtime_dir(record.job)))
    if as_json:
        print_document(row)
        return
    print_table(("WHAT", "VALUE"), [(name, _words(value)) for name, value in row.items()])


def _words(value: object) -> str:
    return ", ".join(str(item) for item in value) if isinstance(value, list) else str(value)


@command.command(epilog="\b\nExample:\n  fleet-dispatch worktrees diff JOB | git apply --check\n")
@click.argument("job")
@json_option
@boundary
def diff(*, job: str, as_json: bool) -> None:
    """Print what differs from the base commit: committed, uncommitted and untracked files."""
    from runagent.process import system_runner
    from worker.trees.diff import read_diff

    with _desk() as (desk, _):
        record = desk.find(job)
        data = read_diff(desk.survey, record, system_runner())
    if as_json:
        print_document({"jobId": record.job, "diff": data.decode("utf-8", "replace")})
    elif sys.stdout.isatty():
        click.echo(inert(data.decode("utf-8", "replace")), nl=False)
    else:
        click.echo(data, nl=False)


@command.command(epilog="\b\nExample:\n  fleet-dispatch worktrees keep JOB --why 'for the demo'\n")
@click.argument("job")
@click.option("--why", default=_KEPT_BY, metavar="TEXT", help="Shown in the list.")
@click.option("--undo", is_flag=True, help="Keep it no longer.")
@json_option
@boundary
def keep(*, job: str, why: str, undo: bool, as_json: bool) -> None:
    """Keep a worktree: no collection removes it, whatever its age."""
    kept = "" if undo else (why.strip() or _KEPT_BY)
    with _desk() as (desk, _):
        record = desk.find(job)
        desk.journal.trees.keep(record.job, kept)
    if as_json:
        print_document({"jobId": record.job, "kept": kept})
    else:
        click.echo(f"{record.job}: {'no longer kept' if undo else 'kept'}")


@command.command(epilog="\b\nExample:\n  fleet-dispatch worktrees remove JOB\n")
@click.argument("job")
@click.option("--force", is_flag=True, help="Even if it holds work that is nowhere else.")
@json_option
@boundary
def remove(*, job: str, force: bool, as_json: bool) -> None:
    """Remove a worktree with its branch; `restore` brings both back for some days.

    Refused while something works in it, and without --force when it holds work that is nowhere
    else.
    """
    with _desk() as (desk, settings):
        view = desk.remove(job, force=force)
    days = settings.worktrees.grace_days
    if as_json:
        record = view.record
        print_document({"jobId": record.job, "removed": record.path, "restorableDays": days})
    else:
        click.echo(f"{view.record.job}: removed; worktrees restore brings it back for {days} days")


@command.command(epilog="\b\nExample:\n  fleet-dispatch worktrees restore JOB\n")
@click.argument("job")
@json_option
@boundary
def restore(*, job: str, as_json: bool) -> None:
    """Bring a removed worktree back, with its branch."""
    with _desk() as (desk, _):
        record = desk.restore(job)
    if as_json:
        print_document({"jobId": record.job, "restored": record.path, "branch": record.branch})
    else:
        click.echo(f"{record.job}: restored at {record.path}")


@command.command(epilog="\b\nExample:\n  fleet-dispatch worktrees gc --dry-run\n")
@click.option("--dry-run", is_flag=True, help="Say what would go, and remove nothing.")
@click.option("--force", is_flag=True, help="Past expire_days, uncommitted work goes as well.")
@json_option
@boundary
def gc(*, dry_run: bool, force: bool, as_json: bool) -> None:
    """Collect by the policy under [worktrees]: end what a crash left, remove what is safe to go."""
    from worker.commands.tree_rows import collection_document

    with _desk() as (desk, _):
        done = desk.collector.collect(dry_run=dry_run, force=force)
    if as_json:
        print_document(collection_document(done))
    else:
        _say_collection(done)


def _say_collection(done: Collection) -> None:
    groups = {
        "ended": done.settled,
        "removed": done.removed,
        "deleted": done.deleted,
        "stays": done.stayed,
        "PROBLEM": done.problems,
    }
    rows = [(job, what, why) for what, pairs in groups.items() for job, why in pairs]
    if done.dry_run:
        click.echo("nothing was changed; this is what would be done")
    print_table(("JOB", "WHAT", "WHY"), rows)
