"""Which generation each host holds: said by the host, signed, and noted by the sender.

The heartbeat carries the statements and is itself unsigned: whoever writes to the broker can hide
one, and then the old keys sign for longer, but can make none up. Noted once, beside the grant.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Final

from contracts.envelope import HELD_TYPE, open_envelope, seal
from contracts.errors import CouldNotCheck, EnvelopeRefused, KeysRefused, Unavailable
from contracts.held import HeldClaims, read_held_claims
from contracts.naming import host_audience
from dispatch.host_keyring import HostKeyring
from dispatch.key_records import Grant
from dispatch.keys import HELD, JOB, KeyId, parse_key_id
from dispatch.sender_keyring import SenderKeyring

_GENERATIONS_MAX: Final = 2  # of one sender: the newest, and the one before it
_STATEMENTS_MAX: Final = 40  # about 16 KB of a heartbeat


def held_statements(ring: HostKeyring) -> list[str]:
    """Return the signed statements of what `ring` holds; none while it cannot be read."""
    try:
        grants = sorted(ring.grants, key=lambda item: item.generation, reverse=True)
    except CouldNotCheck:
        return []
    newest: dict[str, list[Grant]] = {}
    for grant in grants:
        newest.setdefault(grant.iss, []).append(grant)
    texts: list[str] = []
    for mine in newest.values():
        for grant in mine[:_GENERATIONS_MAX]:
            with contextlib.suppress(KeysRefused, CouldNotCheck):  # a grant of the first form
                texts.append(_statement(ring, grant))
    return texts[:_STATEMENTS_MAX]


def note_held(ring: SenderKeyring, statements: Iterable[tuple[str, str]]) -> None:
    """Note beside its grant what each host proves to hold; `statements` is (host, envelope).

    What proves nothing, and a note that the disk does not take, is passed over.
    """
    waiting = {(note.host, note.generation): note for note in ring.grants if note.heldAt is None}
    if not waiting:
        return
    for host, text in statements:
        claims = _read_statement(ring, host, text)
        note = None if claims is None else waiting.get((host, claims.generation))
        if note is None or claims is None or claims.grantedAt < note.grantedAt:
            continue
        with contextlib.suppress(Unavailable):
            ring.note_held(note)
            del waiting[host, claims.generation]


def _statement(ring: HostKeyring, grant: Grant) -> str:
    kid = KeyId(grant.iss, grant.generation, JOB, host_audience(ring.host)).text
    signer = ring.host_signer(HELD, grant.iss, job_kid=kid)
    claims = HeldClaims(
        iss=ring.host, aud=grant.iss, generation=grant.generation, grantedAt=grant.grantedAt
    )
    return seal(claims.model_dump_json().encode(), HELD_TYPE, [signer])


def _read_statement(ring: SenderKeyring, host: str, text: str) -> HeldClaims | None:
    try:
        opened = open_envelope(text, ring.host_keys(HELD), HELD_TYPE)
        claims = read_held_claims(opened.payload)
    except EnvelopeRefused:
        return None
    key_id = parse_key_id(opened.kid)
    assert key_id is not None  # the ring answers to well-formed ids alone
    signed_by = (key_id.aud_name, key_id.iss, key_id.generation)
    said = (claims.iss, claims.aud, claims.generation)
    return claims if said == signed_by and claims.iss == host else None
