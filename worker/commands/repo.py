"""`fleet-dispatch repo`: the repositories that a job left with programs planted for git."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from contracts.clock import SystemClock
from contracts.errors import Refused
from dispatch.commands.boundary import boundary
from dispatch.commands.output import json_option, print_document, print_table
from dispatch.commands.sub_verbs import SubVerbs
from dispatch.times import rfc3339
from validation.inert import one_line

if TYPE_CHECKING:
    from worker.journal.repo_trust import JournalRepoTrust, RepoRecord

_SHOWN_CHARS: Final = 300


@click.group(
    cls=SubVerbs,
    epilog="""\b
Example:
  fleet-dispatch repo list
  fleet-dispatch repo trust /home/me/src/thing
""",
)
def command() -> None:
    """Show repositories that were set aside, and take them back.

    A repository is set aside when its git settings or hooks gained something during a job that git
    would run. No job is started on it until a person has looked and trusts it again.
    """


@command.command("list", epilog="\b\nExample:\n  fleet-dispatch repo list --json\n")
@json_option
@boundary
def list_repositories(*, as_json: bool) -> None:
    """List every repository that was ever set aside on this host."""
    with _repositories() as repositories:
        rows = [_row(record) for record in repositories.all()]
    if as_json:
        print_document({"repositories": rows})
        return
    print_table(
        ["REPOSITORY", "STATE", "SINCE", "JOB", "WHY"],
        [[row["repo"], row["state"], row["since"], row["job"], ", ".join(row["why"])]
         for row in rows],
    )  # fmt: skip


@command.command(epilog="\b\nExample:\n  fleet-dispatch repo status .\n")
@click.argument("path", type=click.Path(file_okay=False))
@json_option
@boundary
def status(*, path: str, as_json: bool) -> int:
    """Say whether jobs may run on the repository at PATH. Exit 2 when it is set aside."""
    with _repositories() as repositories:
        record = _find(repositories, path)
    if as_json:
        known = {"repo": os.path.realpath(path), "state": "trusted", "why": []}
        print_document(known if record is None else _row(record))
    elif record is None or not record.is_quarantined:
        click.echo("jobs may run on it: nothing was planted there during a job of this host")
    else:
        _show(record)
    return 2 if record is not None and record.is_quarantined else 0


@command.command(epilog="\b\nExample:\n  fleet-dispatch repo trust /home/me/src/thing\n")
@click.argument("path", type=click.Path(file_okay=False))
@click.option("--yes", is_flag=True, help="Do not ask: you have looked at what changed.")
@json_option
@boundary
def trust(*, path: str, yes: bool, as_json: bool) -> None:
    """Take the repository at PATH back, after a look at what changed in it."""
    with _repositories() as repositories:
        record = _find(repositories, path)
        if record is None or not record.is_quarantined:
            raise Refused(
                f"{os.path.realpath(path)} is not set aside on this host",
                code="not_quarantined",
                remedy="fleet-dispatch repo list shows those that are",
            )
        if not as_json:
            _show(record)
        _make_sure(yes=yes)
        repositories.trust(record.common_dir)
        after = repositories.find(record.common_dir)
    if as_json and after is not None:
        print_document(_row(after))
    elif not as_json:
        click.echo("trusted: jobs may run on it again")


def _make_sure(*, yes: bool) -> None:
    if yes:
        return
    if not _is_terminal():
        raise Refused(
            "nobody is there to be asked",
            code="not_confirmed",
            remedy="look at what changed, then say --yes",
        )
    if not click.confirm("Did you look at them, and may git run them here?", err=True):
        raise Refused("nothing was changed", code="not_confirmed")


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


@contextlib.contextmanager
def _repositories() -> Iterator[JournalRepoTrust]:
    from worker.journal.journal import Journal
    from worker.settings import load_host_settings

    settings = load_host_settings()
    with contextlib.closing(Journal(settings.journal_file, SystemClock())) as journal:
        yield journal.repositories


def _find(repositories: JournalRepoTrust, path: str) -> RepoRecord | None:
    """Return the record of the repository at `path`. Git is not asked: what was planted there is
    the matter."""
    real = os.path.realpath(path)
    places = {real, os.path.join(real, ".git")}
    for record in repositories.all():
        if record.common_dir in places or record.repo == real:
            return record
    return None


def _show(record: RepoRecord) -> None:
    click.echo(f"{one_line(record.repo, 4_096, keep_spaces=True)} is set aside since "
               f"{rfc3339(record.quarantined_at)}, job {record.job}. New there:")  # fmt: skip
    for item in record.why:
        click.echo(f"  {one_line(item, _SHOWN_CHARS)}")
    git_dir = one_line(record.common_dir, 4_096, keep_spaces=True)
    click.echo(f"Look at {git_dir}/config and {git_dir}/hooks with an editor, not with git.")


def _row(record: RepoRecord) -> dict[str, Any]:
    since = record.quarantined_at if record.is_quarantined else record.trusted_at
    return {
        "repo": record.repo,
        "gitDir": record.common_dir,
        "state": "quarantined" if record.is_quarantined else "trusted",
        "since": rfc3339(since),
        "job": record.job,
        "why": list(record.why),
        "trusted": list(record.trusted),
    }
