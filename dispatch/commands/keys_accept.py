"""`fleet-dispatch keys accept`: take a sender's grant in, on the host that it is for.

On a machine without settings it writes them too, and what that sender may have run here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from contracts.clock import SystemClock
from contracts.errors import InvalidRequest, KeysRefused, Problem
from dispatch.commands.boundary import boundary
from dispatch.commands.host_files import write_host_config, write_host_policy
from dispatch.commands.key_rows import grant_row
from dispatch.commands.output import json_option, print_document

if TYPE_CHECKING:
    from dispatch.key_records import Grant
    from dispatch.settings import Settings

_STDIN_MAX_BYTES: Final = 1024 * 1024


@click.command(
    "accept",
    epilog="\b\nExample:\n  fleet-dispatch keys accept gamingpc.json --repo-root /home/me/src\n",
)
@click.argument("file")
@click.option("--host", metavar="NAME", default=None, help="This host's name, as in the grant.")
@click.option(
    "--repo-root",
    "roots",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    help="A folder whose repositories this sender's jobs may use; repeatable.",
)
@click.option(
    "--validate",
    type=click.Choice(["none", "any"]),
    default=None,
    help="Commands this sender's jobs may bring: none (default), or any: a shell as this user.",
)
@json_option
@boundary
def accept(
    *,
    file: str,
    host: str | None,
    roots: tuple[str, ...],
    validate: Literal["none", "any"] | None,
    as_json: bool,
) -> None:
    """Take in a grant from FILE (- for stdin) on the host that it is for.

    On a machine without settings it writes them, and a policy for that sender.
    """
    from dispatch.key_records import Grant, read_record
    from dispatch.key_store import accept_grant
    from dispatch.settings import load_settings

    data = _read_grant(file)
    settings = load_settings(flags={"host.name": host})
    offered = read_record(data, Grant, file)
    is_new = not settings.places.config_file.exists()
    name = settings.host_name
    if host is None and is_new:
        name = offered.host  # nobody chose a name for this machine yet
    _check_policy_is_new(settings.places.policy_file, roots, validate)
    taken = accept_grant(settings.places.keys_dir, data, name, file=file, clock=SystemClock())
    made = _write_missing(settings, taken, roots, validate or "none")
    notes = _notes(settings, taken, made, roots, validate or "none")
    document = {**grant_row(taken), "made": made, "notes": notes}
    if as_json:
        print_document(document)
        return
    click.echo(f"accepted keys of {taken.iss} for host {taken.host}, lanes {','.join(taken.lanes)}")
    for written in made:
        click.echo(f"wrote {written}")
    for note in notes:
        click.echo(f"note: {note}")
    click.echo(f"next: fleet-dispatch listen --lane {taken.lanes[0]}")


def _read_grant(file: str) -> bytes:
    from dispatch.private_files import read_private_file

    if file == "-":
        return sys.stdin.buffer.read(_STDIN_MAX_BYTES)
    try:
        return read_private_file(Path(file))
    except FileNotFoundError as error:
        raise KeysRefused(
            f"{file} does not exist", code="missing", remedy="fleet-dispatch keys grant writes it"
        ) from error


def _check_policy_is_new(path: Path, roots: tuple[str, ...], validate: str | None) -> None:
    """Refuse what would be written into a policy that is there: it is its owner's."""
    given = (("--repo-root", "repo_roots", roots), ("--validate", "validate", validate))
    problems = [
        Problem(option, f"{path} exists", f"set {key} there")
        for option, key, value in given
        if value
    ]
    if problems and path.exists():
        raise InvalidRequest(problems)


def _write_missing(
    settings: Settings, taken: Grant, roots: tuple[str, ...], validate: Literal["none", "any"]
) -> list[str]:
    from dispatch.private_files import make_private_folder

    places = settings.places
    make_private_folder(places.state_dir)
    made: list[str] = []
    if write_host_config(places.config_file, host=taken.host, lanes=taken.lanes, sender=None):
        made.append(str(places.config_file))
    if write_host_policy(places.policy_file, sender=taken.iss, roots=roots, validate=validate):
        made.append(str(places.policy_file))
    return made


def _notes(
    settings: Settings, taken: Grant, made: Sequence[str], roots: Sequence[str], validate: str
) -> list[str]:
    policy = settings.places.policy_file
    notes = [
        f"what {taken.iss} may have run here stands in {policy}: sections, repo_roots, validate"
    ]
    if str(policy) in made:
        if validate == "none":
            notes.append(
                'a job with a validateCommand is refused until validate = "any" stands there'
            )
        if not roots:
            notes.append("every job is refused until repo_roots there names a folder")
    if settings.host.lanes and not set(taken.lanes) & set(settings.host.lanes):
        notes.append(
            f"this host serves {','.join(settings.host.lanes)}, and the grant is for other lanes"
        )
    return notes
