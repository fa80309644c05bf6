"""The algorithms behind the Signer and Verifier protocols: HMAC-SHA256 and Ed25519.

The algorithm belongs to the key record, never to an envelope: a verifier is built from a record
and knows one algorithm, whatever a signature looks like. With HMAC whoever checks can sign; with
Ed25519 a checker holds the public half alone. No secret ever appears in a representation. The
library is loaded by the first use of a pair: no key of HMAC needs its curves.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from contracts.envelope import Signer, Verifier
from contracts.errors import KeysRefused
from dispatch.keys import DEFAULT_ALGORITHM, PAYLOAD_TYPES, KeyId

HMAC_SHA256: Final = DEFAULT_ALGORITHM
ED25519: Final = "Ed25519"


@dataclass(frozen=True, slots=True)
class HmacSha256Key:
    """HMAC-SHA256, named `HS256` in key records: signer and verifier in one."""

    kid: str
    payload_type: str
    secret: bytes = field(repr=False)

    def sign(self, message: bytes) -> bytes:
        """See Signer.sign."""
        return hmac.digest(self.secret, message, hashlib.sha256)

    def verify(self, message: bytes, signature: bytes) -> bool:
        """See Verifier.verify."""
        return hmac.compare_digest(self.sign(message), signature)


@dataclass(frozen=True, slots=True)
class Ed25519Signer:
    """The private half of a pair."""

    kid: str
    payload_type: str
    seed: bytes = field(repr=False)

    def sign(self, message: bytes) -> bytes:
        """See Signer.sign."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self.seed).sign(message)


@dataclass(frozen=True, slots=True)
class Ed25519Verifier:
    """The public half of a pair."""

    kid: str
    payload_type: str
    public: bytes

    def verify(self, message: bytes, signature: bytes) -> bool:
        """See Verifier.verify."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Algorithm:
    """How keys of one algorithm sign and check; `public_part` is what a checker needs of a secret,
    None where that is the secret itself."""

    signer: Callable[[str, str, bytes], Signer]
    verifier: Callable[[str, str, bytes], Verifier]
    public_part: Callable[[bytes], bytes] | None


def _public_key(seed: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


ALGORITHMS: Final[dict[str, Algorithm]] = {
    HMAC_SHA256: Algorithm(HmacSha256Key, HmacSha256Key, None),
    ED25519: Algorithm(Ed25519Signer, Ed25519Verifier, _public_key),
}


def checking_part(algorithm: str, secret: bytes) -> bytes:
    """Return what a checker of the key with this `secret` holds: 32 bytes in either algorithm.

    Raises KeysRefused for an algorithm that we do not know.
    """
    part = _algorithm(algorithm).public_part
    return secret if part is None else part(secret)


def build_signer(algorithm: str, key_id: KeyId, secret: bytes) -> Signer:
    """Return what signs as `key_id`. Raises KeysRefused for an algorithm that we do not know."""
    return _algorithm(algorithm).signer(key_id.text, PAYLOAD_TYPES[key_id.purpose], secret)


def build_verifier(algorithm: str, key_id: KeyId, part: bytes) -> Verifier:
    """Return what checks signatures of `key_id`, of its `checking_part`.

    Raises KeysRefused for an algorithm that we do not know.
    """
    return _algorithm(algorithm).verifier(key_id.text, PAYLOAD_TYPES[key_id.purpose], part)


def _algorithm(name: str) -> Algorithm:
    found = ALGORITHMS.get(name)
    if found is None:
        raise KeysRefused(
            "a key has an algorithm that this version does not know",
            code="algorithm",
            remedy="update fleet-dispatch, or grant again",
        )
    return found
