"""Key ids, derivation and the algorithms behind the Signer and Verifier protocols.

A sender holds one 32-byte master per generation; what a host gets is derived from it for one
purpose, one issuer and one audience, so a stolen host key signs for that host or its lanes alone.
The algorithm belongs to the key record, never to an envelope. No files here, and no secret ever
appears in a representation.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from contracts.envelope import JOB_TYPE, RECEIPT_TYPE, RESULT_TYPE
from contracts.errors import KeysRefused
from contracts.ids import is_name

SECRET_BYTES: Final = 32  # the output size of SHA-256: longer adds nothing to HMAC-SHA256
_CONTEXT: Final = b"fleet-dispatch v1\0"
_GENERATION: Final = re.compile(r"[1-9][0-9]{0,5}")

JOB: Final = "job"
RESULT: Final = "result"
RECEIPT: Final = "receipt"  # derived by the sender for itself alone; no grant holds one
# A purpose may sign one payload type and no other, whatever an envelope says.
_PAYLOAD_TYPES: Final = {JOB: JOB_TYPE, RESULT: RESULT_TYPE, RECEIPT: RECEIPT_TYPE}


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
        and purpose in _PAYLOAD_TYPES
        and kind in ("host", "lane")
        and is_name(name)
    )
    return KeyId(iss, int(generation), purpose, aud) if well_formed else None


def derive_secret(master: bytes, key_id: KeyId) -> bytes:
    """Return the 32-byte secret of `key_id`: HKDF-SHA256 without salt, bound to all its parts."""
    parts = (key_id.iss, str(key_id.generation), key_id.purpose, key_id.aud)
    info = _CONTEXT + b"\0".join(part.encode("ascii") for part in parts)
    return HKDF(algorithm=SHA256(), length=SECRET_BYTES, salt=None, info=info).derive(master)


class Key(Protocol):
    """A Signer and a Verifier in one, as a symmetric algorithm is; an asymmetric one has two."""

    @property
    def kid(self) -> str:
        """Return the key id."""
        ...

    @property
    def payload_type(self) -> str:
        """Return the only payload type that it signs."""
        ...

    def sign(self, message: bytes) -> bytes:
        """Return the signature of `message`."""
        ...

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Say whether `signature` is this key's for `message`, in constant time."""
        ...


@dataclass(frozen=True, slots=True)
class HmacSha256Key:
    """HMAC-SHA256, named `HS256` in key records."""

    kid: str
    payload_type: str
    secret: bytes = field(repr=False)

    def sign(self, message: bytes) -> bytes:
        """See Key.sign."""
        return hmac.digest(self.secret, message, hashlib.sha256)

    def verify(self, message: bytes, signature: bytes) -> bool:
        """See Key.verify."""
        return hmac.compare_digest(self.sign(message), signature)


DEFAULT_ALGORITHM: Final = "HS256"
ALGORITHMS: Final[dict[str, Callable[[str, str, bytes], Key]]] = {DEFAULT_ALGORITHM: HmacSha256Key}


def build_key(algorithm: str, key_id: KeyId, secret: bytes) -> Key:
    """Return the key of a record. Raises KeysRefused for an algorithm that we do not know."""
    make = ALGORITHMS.get(algorithm)
    if make is None:
        raise KeysRefused(
            f"the key {key_id.text} has an algorithm that this version does not know",
            code="algorithm",
            remedy="update fleet-dispatch, or grant again",
        )
    return make(key_id.text, _PAYLOAD_TYPES[key_id.purpose], secret)
