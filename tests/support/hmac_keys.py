"""Real HMAC-SHA256 keys for tests of the envelope: no derivation, no files."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from contracts.envelope import JOB_TYPE


@dataclass(frozen=True)
class HmacKey:
    """A signer and a verifier in one."""

    kid: str
    secret: bytes
    payload_type: str = JOB_TYPE

    def sign(self, message: bytes) -> bytes:
        return hmac.digest(self.secret, message, hashlib.sha256)

    def verify(self, message: bytes, signature: bytes) -> bool:
        return hmac.compare_digest(self.sign(message), signature)


class Keys:
    """The keys that a host would know."""

    def __init__(self, *keys: HmacKey) -> None:
        self._keys = {key.kid: key for key in keys}

    def verifier(self, kid: str) -> HmacKey | None:
        return self._keys.get(kid)
