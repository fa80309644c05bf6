"""`fleet-dispatch keys list`: identities, grants, where each host stands, and what is revoked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from contracts.clock import Clock, SystemClock
from contracts.errors import CouldNotCheck, KeysRefused, Unavailable
from contracts.naming import host_audience
from dispatch.commands.boundary import boundary
from dispatch.commands.key_rows import grant_row, master_row
from dispatch.commands.output import json_option, print_document, print_table
from dispatch.times import rfc3339

if TYPE_CHECKING:
    from dispatch.key_records import Grant, Granted, Master
    from dispatch.revocations import Revocations
    from dispatch.settings import Settings


@click.command("list", epilog="\b\nExample:\n  fleet-dispatch keys list --json\n")
@json_option
@boundary
def list_keys(*, as_json: bool) -> None:
    """Show identities, what was granted, which host holds it, and what was accepted here.

    No secret is shown. While a host is not yet seen to hold what it was granted, its heartbeat is
    looked at.
    """
    from dispatch.settings import load_settings

    settings, clock = load_settings(), SystemClock()
    _look_at_hosts(settings, clock)
    document = _listing(settings, clock)
    if as_json:
        print_document(document)
        return
    rows: list[tuple[str, ...]] = []
    for kind in ("senders", "granted", "accepted"):
        for item in document[kind]:
            what = (kind, item["sender"], str(item["generation"]))
            where = (item.get("host", ""), ",".join(item.get("lanes", ())))
            rows.append((*what, *where, item["until"], item["state"]))
    print_table(("KIND", "SENDER", "GEN", "HOST", "LANES", "UNTIL", "STATE"), rows)
    for words in document["revoked"]:
        click.echo(f"revoked: {words}")
    if document["permissionsNote"]:
        click.echo(document["permissionsNote"])


def _look_at_hosts(settings: Settings, clock: Clock) -> None:
    """Let hosts that are live prove what they hold; a broker that is away proves nothing."""
    from dispatch.keyring import SenderKeyring
    from dispatch.known_hosts import known_hosts
    from dispatch.queue import FleetQueue

    try:
        ring = SenderKeyring.load(settings.places.keys_dir, settings.sender_name, clock)
    except KeysRefused as error:
        if error.code != "missing":
            raise
        return
    if all(note.heldAt is not None for note in ring.living_grants):
        return
    queue = FleetQueue.connect(settings.redis_url, clock)
    try:
        known_hosts(ring, queue)
    except (Unavailable, CouldNotCheck):
        return
    finally:
        queue.close()


def _listing(settings: Settings, clock: Clock) -> dict[str, Any]:
    from dispatch.key_records import Grant, Granted, Master
    from dispatch.key_store import read_records
    from dispatch.private_files import PERMISSIONS_NOTE, check_private_folder
    from dispatch.revocations import read_revocations

    keys, now = settings.places.keys_dir, clock.wall()
    check_private_folder(keys)
    notes, revoked = list(read_records(keys, Granted)), read_revocations(keys)
    masters = list(read_records(keys, Master))
    return {
        "senders": [_master(item, masters, notes, revoked, now) for item in masters],
        "granted": [_note(item, revoked, now) for item in notes],
        "accepted": [_accepted(item, revoked, now) for item in read_records(keys, Grant)],
        "revoked": sorted(item.words for item in revoked.items),
        "permissionsNote": PERMISSIONS_NOTE,
    }


def _master(
    item: Master, masters: list[Master], notes: list[Granted], revoked: Revocations, now: float
) -> dict[str, Any]:
    from dispatch.rotation import hosts_behind

    mine = [note for note in notes if note.iss == item.iss and not _is_revoked(note, revoked)]
    usable = [
        other.generation
        for other in masters
        if other.iss == item.iss
        and other.is_valid_at(now)
        and not revoked.covers_generation(other.iss, other.generation)
    ]
    newest = max(usable, default=0)
    valid, is_usable = item.is_valid_at(now), item.generation in usable
    is_older = is_usable and item.generation != newest
    behind = hosts_behind(item.generation, mine, now=now) if is_older else []
    if not is_usable:
        state = "revoked" if valid else "not valid now"
    elif item.generation == newest:
        state = "signs"
    elif behind:
        state = f"signs too, until {', '.join(behind)} holds a newer one"
    else:
        state = "retired"
    return {**master_row(item), "valid": valid, "state": state, "neededBy": behind}


def _is_revoked(item: Granted | Grant, revoked: Revocations) -> bool:
    from dispatch.keys import RESULT, KeyId

    aud = host_audience(item.host)
    return revoked.covers(KeyId(item.iss, item.generation, RESULT, aud))


def _note(item: Granted, revoked: Revocations, now: float) -> dict[str, Any]:
    held = item.heldAt
    state = "not seen to hold it" if held is None else f"holds it, seen {rfc3339(held)}"
    row = {**grant_row(item), **_standing(item, revoked, now, state)}
    return {**row, "heldAt": None if held is None else rfc3339(held)}


def _accepted(item: Grant, revoked: Revocations, now: float) -> dict[str, Any]:
    return {**grant_row(item), **_standing(item, revoked, now, "valid")}


def _standing(
    item: Granted | Grant, revoked: Revocations, now: float, usable_state: str
) -> dict[str, Any]:
    valid = item.is_valid_at(now)
    state = "revoked" if _is_revoked(item, revoked) else usable_state
    return {"valid": valid, "state": state if valid else "not valid now"}
