"""`fleet-dispatch keys revoke`: keys that count no more on this machine, within a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from contracts.clock import SystemClock
from contracts.errors import InvalidRequest, Problem
from contracts.ids import checked_name
from dispatch.commands.boundary import boundary
from dispatch.commands.output import json_option, print_document

if TYPE_CHECKING:
    from dispatch.revocations import Revocation
    from dispatch.settings import Settings


@click.command(
    "revoke",
    epilog="""\b
Example, a host was stolen (on the sender):
  fleet-dispatch keys revoke --host GAMINGPC
  fleet-dispatch keys rotate --out grants
""",
)
@click.argument("kid", required=False)
@click.option("--host", metavar="NAME", default="", help="All keys for that host alone.")
@click.option("--sender", metavar="NAME", default="", help="All keys of that sender.")
@click.option(
    "--generation",
    type=click.IntRange(1, 999_999),
    default=None,
    help="All keys of that generation, of --sender or of this machine's own.",
)
@json_option
@boundary
def revoke_keys(
    *, kid: str | None, host: str, sender: str, generation: int | None, as_json: bool
) -> None:
    """Revoke one key by its id (KID), or all keys that the options name together.

    Programs that run notice within a second. Revoke on each machine that must not trust the keys:
    on a host for what it accepts, on the sender for what it signs with and believes.
    """
    from dispatch.private_files import check_private_folder
    from dispatch.revocations import revoke
    from dispatch.settings import load_settings

    settings = load_settings()
    check_private_folder(settings.places.keys_dir)
    asked = _asked(settings, kid or "", host, sender, generation or 0)
    new = revoke(settings.places.keys_dir, asked)
    notes = _notes(asked)
    if as_json:
        print_document({"revoked": asked.words, "new": new, "notes": notes})
        return
    click.echo(f"revoked: {asked.words}" if new else f"was revoked before: {asked.words}")
    for note in notes:
        click.echo(f"note: {note}")


def _asked(settings: Settings, kid: str, host: str, sender: str, generation: int) -> Revocation:
    """Return what is to be revoked. Raises InvalidRequest for nothing, or for both ways at once."""
    from dispatch.keys import parse_key_id
    from dispatch.revocations import Revocation

    if bool(kid) == bool(host or sender or generation):
        problem = Problem("keys revoke", "needs a KID or options, not both", "see its --help")
        raise InvalidRequest([problem])
    if kid and parse_key_id(kid) is None:
        problem = Problem("KID", "is no key id", "for example alice/1/job/host:GAMINGPC")
        raise InvalidRequest([problem])
    for name, option in ((host, "--host"), (sender, "--sender")):
        if name:
            checked_name(name, option)
    if generation and not sender:
        sender = settings.sender_name
    now = int(SystemClock().wall())
    return Revocation(kid=kid, host=host, sender=sender, generation=generation, at=now)


def _notes(asked: Revocation) -> list[str]:
    notes = []
    if asked.host:
        notes.append(
            f"HMAC keys of its lanes are shared with other hosts: if {asked.host} can be misused, "
            "keys rotate, and then revoke the old --generation here and on the hosts"
        )
    if asked.generation:
        notes.append("results of jobs that were signed with it alone are not believed any more")
    return notes
