"""Purposes, key ids and derivation: which key signs what, for whom.

A sender holds one 32-byte master per generation; what a host gets is derived from it for one
purpose, one issuer and one audience, so a stolen host key signs for that host or its lanes alone.
No files and no algorithms here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from contracts import envelope
from contracts.ids import is_name

SECRET_BYTES: Final = 32  # the output size of SHA-256, and an Ed25519 seed
DEFAULT_ALGORITHM: Final = "HS256"
MASTER_DAYS: Final = 3_650  # the life of a generation when nobody says otherwise
GRANT_DAYS: Final = 365  # the life of a grant when nobody says otherwise
_CONTEXT: Final = b"fleet-dispatch v1\0"
_GENERATION: Final = re.compile(r"[1-9][0-9]{0,5}")

JOB: Final = "job"
CANCEL: Final = "cancel"
ASK: Final = "ask"
RESULT: Final = "result"
EVENT: Final = "event"
DELIVERY: Final = "delivery"
HELD: Final = "held"  # a host's statement of which generation it holds
RECEIPT: Final = "receipt"  # derived by the sender for itself alone; no grant holds one

# Signed by the sender, checked by a host, for itself and for its lanes.
BY_SENDER: Final = (JOB, CANCEL, ASK)
# Signed by a host, checked by the sender.
BY_HOST: Final = (RESULT, EVENT, DELIVERY, HELD)
# A purpose may sign one payload type and no other, whatever an envelope says.
PAYLOAD_TYPES: Final = {
    JOB: envelope.JOB_TYPE,
    CANCEL: envelope.CANCEL_TYPE,
    ASK: envelope.ASK_TYPE,
    RESULT: envelope.RESULT_TYPE,
    EVENT: envelope.EVENT_TYPE,
    DELIVERY: envelope.DELIVERY_TYPE,
    HELD: envelope.HELD_TYPE,
    RECEIPT: envelope.RECEIPT_TYPE,
}


@dataclass(frozen=True, slots=True)
class KeyId:
    """`issuer/generation/purpose/audience`; the text is what stands in an envelope."""

    iss: str
    generation: int
    purpose: str
    aud: str

    @property
    def text(self) -> str:
        """Return the id as it stands in an envelope."""
        return f"{self.iss}/{self.generation}/{self.purpose}/{self.aud}"

    @property
    def aud_kind(self) -> str:
        """Return `host` or `lane`."""
        return self.aud.partition(":")[0]

    @property
    def aud_name(self) -> str:
        """Return the name of the host or the lane."""
        return self.aud.partition(":")[2]


def parse_key_id(text: str) -> KeyId | None:
    """Return the parts of a key id, None when `text` is not exactly one."""
    parts = text.split("/")
    if len(parts) != 4:
        return None
    iss, generation, purpose, aud = parts
    kind, _, name = aud.partition(":")
    well_formed = (
        is_name(iss)
        and _GENERATION.fullmatch(generation) is not None
        and purpose in PAYLOAD_TYPES
        and kind in ("host", "lane")
        and is_name(name)
    )
    return KeyId(iss, int(generation), purpose, aud) if well_formed else None


def derive_secret(master: bytes, key_id: KeyId, algorithm: str = DEFAULT_ALGORITHM) -> bytes:
    """Return the 32-byte secret of `key_id`: HKDF-SHA256 without salt, bound to all its parts.

    Any algorithm but HMAC's is one more part, so that no two of them ever share a secret.
    """
    # loaded here: the names and lives of keys are asked for where none is derived
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    parts = [key_id.iss, str(key_id.generation), key_id.purpose, key_id.aud]
    if algorithm != DEFAULT_ALGORITHM:
        parts.append(algorithm)
    info = _CONTEXT + b"\0".join(part.encode("ascii") for part in parts)
    return HKDF(algorithm=SHA256(), length=SECRET_BYTES, salt=None, info=info).derive(master)
