"""`fleet-dispatch keys rotate`: a new generation, and a grant of it for every host."""

from __future__ import annotations

from pathlib import Path

import click

from contracts.clock import SystemClock
from dispatch.algorithms import ALGORITHMS
from dispatch.commands.boundary import boundary
from dispatch.commands.key_rows import grant_row, master_row
from dispatch.commands.output import json_option, print_document
from dispatch.keys import GRANT_DAYS, MASTER_DAYS


@click.command("rotate", epilog="\b\nExample:\n  fleet-dispatch keys rotate --out grants\n")
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    default="grants",
    show_default=True,
    help="The folder for the grants of the hosts; made if need be.",
)
@click.option(
    "--algorithm",
    type=click.Choice(list(ALGORITHMS)),
    default=None,
    help="Of the new keys; default: as before. With Ed25519 a host's keys can sign no job at all.",
)
@click.option(
    "--days",
    type=click.IntRange(1, 3_650),
    default=MASTER_DAYS,
    show_default=True,
    help="The life of the new generation.",
)
@click.option(
    "--grant-days",
    type=click.IntRange(1, 3_650),
    default=GRANT_DAYS,
    show_default=True,
    help="The life of its grants.",
)
@json_option
@boundary
def rotate_keys(
    *, out: str, algorithm: str | None, days: int, grant_days: int, as_json: bool
) -> None:
    """Make a new generation of keys, and write a grant of it for every host that has one.

    Both generations sign until each host is seen to hold the new one; then the old one retires by
    itself. `keys list` shows where each host stands.
    """
    from dispatch.keyring import SenderKeyring
    from dispatch.rotating import rotate
    from dispatch.settings import load_settings

    settings, clock = load_settings(), SystemClock()
    made = rotate(
        SenderKeyring.load(settings.places.keys_dir, settings.sender_name, clock),
        algorithm=algorithm,
        out=Path(out),
        days=days,
        grant_days=grant_days,
        own_host=settings.host_name,
        clock=clock,
    )
    rows = [{**grant_row(grant), "file": file} for grant, file in made.grants]
    if as_json:
        print_document({**master_row(made.master), "grants": rows})
        return
    click.echo(f"made generation {made.master.generation} of {made.master.iss}, {made.master.alg}")
    for grant, file in made.grants:
        click.echo(f"wrote {file}" if file else f"accepted here, for host {grant.host}")
    for grant, file in made.grants:
        if file:
            click.echo(f"next, on {grant.host}: fleet-dispatch keys accept {Path(file).name}")
    click.echo("both generations sign until every host holds the new one: keys list")
