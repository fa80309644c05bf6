"""Deriving what a host is given: what it checks with, for itself and its lanes, and what it signs
with. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from contracts import limits
from contracts.errors import InvalidRequest, Problem
from contracts.ids import checked_name
from dispatch.algorithms import HMAC_SHA256, checking_part
from dispatch.key_records import Grant, GrantedKey, Master, encode_secret
from dispatch.keys import BY_HOST, KeyId, derive_secret

_DAY_S: Final = 86_400


def derive_grant(
    master: Master, host: str, lanes: Sequence[str], *, days: int, now: float
) -> Grant:
    """Return a grant of `master` for `host` and `lanes`, valid for `days` from `now`.

    Raises InvalidRequest for a malformed or repeated name.
    """
    checked_name(host, "host")
    for lane in lanes:
        checked_name(lane, "lanes")
    if not lanes or len(set(lanes)) != len(lanes):
        raise InvalidRequest([Problem("lanes", "needs each lane once", "--lanes A,B")])
    grant = Grant(
        iss=master.iss,
        generation=master.generation,
        nbf=int(now) - limits.SKEW_S,
        exp=int(now) + days * _DAY_S,
        host=host,
        lanes=tuple(lanes),
        grantedAt=int(now),
        keys=(),
    )
    keys = tuple(_granted_key(master, key_id) for key_id in grant.wanted_key_ids().values())
    return grant.model_copy(update={"keys": keys})


def _granted_key(master: Master, key_id: KeyId) -> GrantedKey:
    """Return the half of a key that its host needs: with a public one it checks and cannot sign."""
    secret = derive_secret(master.secret_bytes, key_id, master.alg)
    if key_id.purpose in BY_HOST or master.alg == HMAC_SHA256:
        return GrantedKey(kid=key_id.text, alg=master.alg, secret=encode_secret(secret))
    public = encode_secret(checking_part(master.alg, secret))
    return GrantedKey(kid=key_id.text, alg=master.alg, public=public)
