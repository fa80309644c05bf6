"""Deriving what a host is given: its own two keys, and one for each of its lanes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from contracts import limits
from contracts.errors import InvalidRequest, Problem
from contracts.ids import checked_name
from dispatch.key_records import Grant, GrantedKey, Master, encode_secret
from dispatch.keys import derive_secret

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
    keys = tuple(
        GrantedKey(
            kid=kid,
            alg=master.alg,
            secret=encode_secret(derive_secret(master.secret_bytes, key_id)),
        )
        for kid, key_id in grant.wanted_key_ids().items()
    )
    return grant.model_copy(update={"keys": keys})
