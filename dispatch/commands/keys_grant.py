"""`fleet-dispatch keys grant`: write the file with which a host may check and answer us."""

from __future__ import annotations

from pathlib import Path

import click

from contracts.clock import SystemClock
from contracts.errors import InvalidRequest, Problem, Refused
from dispatch.commands.boundary import boundary
from dispatch.commands.key_rows import grant_row
from dispatch.commands.output import json_option, print_document
from dispatch.keys import GRANT_DAYS


@click.command(
    "grant",
    epilog="\b\nExample:\n  fleet-dispatch keys grant GAMINGPC --lanes MAIN,GPU --out pc.json\n",
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
    from dispatch.key_records import dump_record
    from dispatch.key_store import record_grant
    from dispatch.keyring import SenderKeyring
    from dispatch.private_files import write_private_file
    from dispatch.settings import load_settings

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
    document = {**grant_row(given), "file": str(file)}
    if as_json:
        print_document(document)
        return
    click.echo(f"wrote {file}: keys for host {host}, lanes {lanes}, until {document['until']}")
    click.echo(f"next, on {host}: fleet-dispatch keys accept {file.name}; then remove the file")
