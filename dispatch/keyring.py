"""The two keyrings, by one name: a sender's, and a host's.

A sender holds masters and derives; a host holds what was derived for it. Neither ever has the
other's half: see `sender_keyring` and `host_keyring`.
"""

from __future__ import annotations

from pathlib import Path

from contracts.clock import Clock
from contracts.errors import KeysRefused
from dispatch.host_keyring import HostKeyring
from dispatch.keys import GRANT_DAYS
from dispatch.sender_keyring import SenderKeyring

__all__ = ["GRANT_DAYS", "HostKeyring", "SenderKeyring", "ring_or_refusal"]


def ring_or_refusal(keys_dir: Path, name: str, clock: Clock) -> SenderKeyring | KeysRefused:
    """Return the ring of sender `name`, or why there is none on this machine, which may still look.

    Raises KeysRefused for keys that others could read.
    """
    try:
        return SenderKeyring.load(keys_dir, name, clock)
    except KeysRefused as error:
        if error.code != "missing":
            raise
        return error
