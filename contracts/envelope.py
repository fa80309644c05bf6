"""The signed envelope: exact bytes in, exact bytes out.

The signature covers a pre-authentication encoding of the type and the payload bytes, so no parser
stands between what was signed and what is checked. Nothing is parsed before a signature holds, and
what is verified is what is returned: nobody re-serialises. The algorithm belongs to the key, never
to the envelope.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from contracts import limits
from contracts.errors import EnvelopeRefused, InvalidRequest, Problem
from contracts.strict_json import JsonValue, parse_strict_object

VERSION: Final = 1
# Signed by a sender, checked by hosts.
JOB_TYPE: Final = "application/vnd.fleet-dispatch.job.v1+json"
CANCEL_TYPE: Final = "application/vnd.fleet-dispatch.cancel.v1+json"
ASK_TYPE: Final = "application/vnd.fleet-dispatch.ask.v1+json"
# Signed by a host, checked by the sender.
RESULT_TYPE: Final = "application/vnd.fleet-dispatch.result.v1+json"
EVENT_TYPE: Final = "application/vnd.fleet-dispatch.event.v1+json"
DELIVERY_TYPE: Final = "application/vnd.fleet-dispatch.delivery.v1+json"
HELD_TYPE: Final = "application/vnd.fleet-dispatch.held.v1+json"
# Signed and checked by the sender alone.
RECEIPT_TYPE: Final = "application/vnd.fleet-dispatch.receipt.v1+json"

_OUTER_KEYS: Final = frozenset({"v", "payloadType", "payload", "sigs"})
_SIGNATURE_KEYS: Final = frozenset({"kid", "mac"})
_KID_MAX_CHARS: Final = 300
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))  # made once: making one costs more


class Signer(Protocol):
    """Signs for one purpose, one issuer and one audience; the algorithm is its own."""

    @property
    def kid(self) -> str:
        """Return the key id that goes into the envelope."""
        ...

    def sign(self, message: bytes) -> bytes:
        """Return the signature of `message`."""
        ...


class Verifier(Protocol):
    """Checks signatures of one key, in constant time."""

    @property
    def kid(self) -> str:
        """Return the key id that it answers to."""
        ...

    @property
    def payload_type(self) -> str:
        """Return the only payload type that this key may sign."""
        ...

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Say whether `signature` is this key's for `message`."""
        ...


class VerifierLookup(Protocol):
    """A keyring as `open_envelope` sees it."""

    def verifier(self, kid: str) -> Verifier | None:
        """Return the usable key of that id; None for one that is unknown or not valid now."""
        ...


@dataclass(frozen=True, slots=True)
class Opened:
    """What a signature was found to hold for: the exact payload bytes and the key that signed."""

    payload: bytes
    kid: str
    payload_type: str


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that are signed: `FDv1 len type len payload`, lengths in bytes, decimal."""
    kind = payload_type.encode()
    return b"FDv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def seal(payload: bytes, payload_type: str, signers: Sequence[Signer]) -> str:
    """Return the envelope text of `payload`, signed by each of 1 to 4 `signers`.

    Raises InvalidRequest when the payload is larger than 16 MiB.
    """
    if not 1 <= len(signers) <= limits.SIGNATURES_MAX:
        raise ValueError(f"an envelope has 1 to {limits.SIGNATURES_MAX} signatures")
    _check_payload_size(payload)
    message = pre_authentication_encoding(payload_type, payload)
    signatures = [{"kid": signer.kid, "mac": _encode(signer.sign(message))} for signer in signers]
    # Built by hand around the payload: one copy of up to 22 MB is enough.
    return f'{_head(payload_type)},"payload":"{_encode(payload)}","sigs":{_dump(signatures)}}}'


def open_envelope(text: str | bytes, keys: VerifierLookup, payload_type: str) -> Opened:
    """Return the payload of the envelope `text` if one of its signatures holds.

    Raises EnvelopeRefused; its code is `too_large`, `malformed`, `wrong_type`, `unknown_key` or
    `bad_signature` and is meant for this side's log alone.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(data) > limits.ENVELOPE_MAX_BYTES:
        raise EnvelopeRefused(f"an envelope of {len(data)} bytes", code="too_large")
    outer = _read_outer(data)
    if outer["payloadType"] != payload_type:
        raise EnvelopeRefused("an envelope of another type", code="wrong_type")
    payload = _decode(outer["payload"])
    if len(payload) > limits.PAYLOAD_MAX_BYTES:
        raise EnvelopeRefused(f"a payload of {len(payload)} bytes", code="too_large")
    message = pre_authentication_encoding(payload_type, payload)
    known = False
    for kid, signature in _read_signatures(outer["sigs"]):
        verifier = keys.verifier(kid)
        if verifier is None or verifier.payload_type != payload_type:
            continue
        known = True
        if verifier.verify(message, signature):
            return Opened(payload=payload, kid=kid, payload_type=payload_type)
    if known:
        raise EnvelopeRefused("no signature holds", code="bad_signature")
    raise EnvelopeRefused("signed by no key that we know for this", code="unknown_key")


def _check_payload_size(payload: bytes) -> None:
    if len(payload) > limits.PAYLOAD_MAX_BYTES:
        raise InvalidRequest(
            [
                Problem(
                    "payload",
                    f"is {len(payload)} bytes",
                    f"at most {limits.PAYLOAD_MAX_BYTES} bytes; shorten the task",
                )
            ]
        )


def _read_outer(data: bytes) -> dict[str, JsonValue]:
    try:
        outer = parse_strict_object(data, field="envelope", max_bytes=limits.ENVELOPE_MAX_BYTES)
    except InvalidRequest as error:
        raise EnvelopeRefused("not strict JSON", code="malformed") from error
    version = outer.get("v")
    if outer.keys() != _OUTER_KEYS or version != VERSION or isinstance(version, bool):
        raise EnvelopeRefused("not an envelope of version 1", code="malformed")
    return outer


def _read_signatures(value: JsonValue) -> list[tuple[str, bytes]]:
    if not isinstance(value, list) or not 1 <= len(value) <= limits.SIGNATURES_MAX:
        raise EnvelopeRefused("needs 1 to 4 signatures", code="malformed")
    signatures: list[tuple[str, bytes]] = []
    for item in value:
        if not isinstance(item, dict) or item.keys() != _SIGNATURE_KEYS:
            raise EnvelopeRefused("a signature has other keys", code="malformed")
        kid = item["kid"]
        if not isinstance(kid, str) or not 0 < len(kid) <= _KID_MAX_CHARS:
            raise EnvelopeRefused("a key id is malformed", code="malformed")
        signatures.append((kid, _decode(item["mac"])))
    if len({kid for kid, _ in signatures}) != len(signatures):
        raise EnvelopeRefused("a key signs twice", code="malformed")
    return signatures


@functools.cache
def _head(payload_type: str) -> str:
    """Return how every envelope of a type begins."""
    return _dump({"v": VERSION, "payloadType": payload_type})[:-1]


def _dump(value: object) -> str:
    """Return JSON of our own few short texts: a key id and a type need no second reading."""
    return _ENCODER.encode(value)


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decode(value: JsonValue) -> bytes:
    """Return the bytes behind canonical base64: what does not re-encode to itself is refused."""
    if not isinstance(value, str):
        raise EnvelopeRefused("base64 is not a string", code="malformed")
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise EnvelopeRefused("not base64", code="malformed") from error
    if _encode(data) != value:
        raise EnvelopeRefused("base64 with more than one reading", code="malformed")
    return data
