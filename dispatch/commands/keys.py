"""`fleet-dispatch keys`: give a host keys, take them in, list both sides. Shows no secret."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import click

from contracts.clock import Clock, SystemClock
from contracts.errors import InvalidRequest, KeysRefused, Problem, Refused
from dispatch.commands.boundary import boundary
from dispatch.commands.host_files import write_host_config, write_host_policy
from dispatch.commands.output import json_option, print_document, print_table
from dispatch.commands.sub_verbs import SubVerbs
from dispatch.key_records import Grant, Granted, Master, dump_record, read_record
from dispatch.key_store import accept_grant, read_records, record_grant
from dispatch.keyring import GRANT_DAYS, SenderKeyring
from dispatch.private_files import (
    PERMISSIONS_NOTE,
    check_private_folder,
    make_private_folder,
    read_private_file,
    write_private_file,
)
from dispatch.revocations import read_revocations
from dispatch.settings import Settings, load_settings
from dispatch.times import rfc3339

_STDIN_MAX_BYTES: Final = 1024 * 1024


@click.group(
    cls=SubVerbs,
    epilog="""\b
Example, a second machine:
  fleet-dispatch keys grant GAMINGPC --lanes MAIN --out gamingpc.json
  scp -p gamingpc.json gamingpc:
  ssh gamingpc fleet-dispatch keys accept gamingpc.json --repo-root /home/me/src
""",
)
def command() -> None:
    """Grant, accept and list keys: a host can check jobs, and forge none for another host."""


@command.command(
    epilog="\b\nExample:\n  fleet-dispatch keys grant GAMINGPC --lanes MAIN,GPU --out pc.json\n"
)
@click.argument("host")
@click.option("--lanes", required=True, metavar="A,B", help="The lanes that it may serve for you.")
@click.option(
    "--out", type=click.Path(dir_okay=False), help="The file to write; default: HOST.grant.json."
)
@click.option(
    "--days", type=click.IntRange(1, 3_650), default=GRANT_DAYS, show_default=True, help="Its life."
)
@json_option
@boundary
def grant(*, host: str, lanes: str, out: str | None, days: int, as_json: bool) -> None:
    """Write a file with keys for HOST and its lanes alone. It is secret: move it safely."""
    settings = load_settings()
    ring = SenderKeyring.load(settings.places.keys_dir, settings.sender_name, SystemClock())
    given = ring.create_grant(host, [lane.strip() for lane in lanes.split(",")], days=days)
    file = Path(out or f"{host}.grant.json")
    if not file.parent.is_dir():
        raise InvalidRequest([Problem("--out", "is in no folder that exists", "make it first")])
    try:
        write_private_file(file, dump_record(given), replace=False)
    except FileExistsError as error:
        raise Refused(
            f"{file} exists", code="exists", remedy="name another file with --out, or remove it"
        ) from error
    record_grant(settings.places.keys_dir, given)
    document = {**_grant_row(given), "file": str(file)}
    if as_json:
        print_document(document)
        return
    click.echo(f"wrote {file}: keys for host {host}, lanes {lanes}, until {document['until']}")
    click.echo(f"next, on {host}: fleet-dispatch keys accept {file.name}; then remove the file")


@command.command(
    epilog="\b\nExample:\n  fleet-dispatch keys accept gamingpc.json --repo-root /home/me/src\n"
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
    document = {**_grant_row(taken), "made": made, "notes": notes}
    if as_json:
        print_document(document)
        return
    click.echo(f"accepted keys of {taken.iss} for host {taken.host}, lanes {','.join(taken.lanes)}")
    for written in made:
        click.echo(f"wrote {written}")
    for note in notes:
        click.echo(f"note: {note}")
    click.echo(f"next: fleet-dispatch listen --lane {taken.lanes[0]}")


@command.command("list", epilog="\b\nExample:\n  fleet-dispatch keys list --json\n")
@json_option
@boundary
def list_keys(*, as_json: bool) -> None:
    """Show identities, what was granted and what was accepted. No secret is shown."""
    document = _listing(load_settings(), SystemClock())
    if as_json:
        print_document(document)
        return
    rows: list[tuple[str, ...]] = []
    for kind in ("senders", "granted", "accepted"):
        for item in document[kind]:
            what = (kind, item["sender"], str(item["generation"]))
            where = (item.get("host", ""), ",".join(item.get("lanes", ())))
            state = "valid" if item["valid"] else "not valid now"
            rows.append((*what, *where, item["until"], state))
    print_table(("KIND", "SENDER", "GEN", "HOST", "LANES", "UNTIL", "STATE"), rows)
    if document["permissionsNote"]:
        click.echo(document["permissionsNote"])


def _listing(settings: Settings, clock: Clock) -> dict[str, Any]:
    keys, now = settings.places.keys_dir, clock.wall()
    check_private_folder(keys)
    return {
        "senders": [_row(item, now) for item in read_records(keys, Master)],
        "granted": [_row(item, now) for item in read_records(keys, Granted)],
        "accepted": [_row(item, now) for item in read_records(keys, Grant)],
        "revoked": sorted(item.words for item in read_revocations(keys).items),
        "permissionsNote": PERMISSIONS_NOTE,
    }


def _row(item: Master | Granted | Grant, now: float) -> dict[str, Any]:
    if isinstance(item, Master):
        row: dict[str, Any] = {
            "sender": item.iss,
            "generation": item.generation,
            "alg": item.alg,
            "from": rfc3339(item.nbf),
            "until": rfc3339(item.exp),
        }
    else:
        row = _grant_row(item)
    return {**row, "valid": item.is_valid_at(now)}


def _grant_row(item: Granted | Grant) -> dict[str, Any]:
    return {
        "sender": item.iss,
        "generation": item.generation,
        "host": item.host,
        "lanes": list(item.lanes),
        "from": rfc3339(item.nbf),
        "until": rfc3339(item.exp),
    }


def _read_grant(file: str) -> bytes:
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
