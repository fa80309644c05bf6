"""The two keyrings, by one name: a sender's, and a host's.

A sender holds masters and derives; a host holds what was derived for it. Neither ever has the
other's half: see `sender_keyring` and `host_keyring`.
"""

from __future__ import annotations

from dispatch.host_keyring import HostKeyring
from dispatch.sender_keyring import GRANT_DAYS, SenderKeyring

__all__ = ["GRANT_DAYS", "HostKeyring", "SenderKeyring"]
