"""The vectors, replayed by a reader of its own: the standard library and cryptography alone.

What stands here is what a program in another language would write after reading docs/wire.md.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PROJECT = Path(__file__).resolve().parents[2]
VECTORS = PROJECT / "contracts" / "vectors"


def _load(name: str) -> Any:
    return json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))


KEYS = {key["kid"]: key for key in _load("derivations")["keys"]}
REFUSALS = _load("refusals")


class Refusal(Exception):
    """Why the reader says no."""


def _hkdf(master: bytes, info: bytes) -> bytes:
    """RFC 5869 with SHA-256, no salt, one block."""
    extracted = hmac.digest(bytes(32), master, hashlib.sha256)
    return hmac.digest(extracted, info + b"\x01", hashlib.sha256)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise Refusal("malformed")
    return dict(pairs)


def _no(_text: str) -> Any:
    raise Refusal("malformed")


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(_depth, inner), default=0) if isinstance(value, (dict, list)) else 0


def _strict(data: bytes) -> Any:
    if data.startswith(b"\xef\xbb\xbf"):
        raise Refusal("malformed")
    try:
        value = json.loads(
            data.decode("utf-8"), object_pairs_hook=_pairs, parse_float=_no, parse_constant=_no
        )
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # a lone surrogate has no bytes
    except (ValueError, RecursionError) as error:
        raise Refusal("malformed") from error
    if _depth(value) > 16:
        raise Refusal("malformed")
    return value


def _base64(text: Any) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (ValueError, TypeError) as error:
        raise Refusal("malformed") from error
    if base64.b64encode(data).decode() != text:
        raise Refusal("malformed")
    return data


def _signatures(value: Any) -> Iterator[tuple[str, bytes]]:
    if not isinstance(value, list) or not 1 <= len(value) <= 4:
        raise Refusal("malformed")
    for item in value:
        if not isinstance(item, dict) or item.keys() != {"kid", "mac"}:
            raise Refusal("malformed")
        if not isinstance(item["kid"], str) or not 1 <= len(item["kid"]) <= 300:
            raise Refusal("malformed")
        yield item["kid"], _base64(item["mac"])


def _holds(key: dict[str, str], message: bytes, signature: bytes) -> bool:
    if key["alg"] == "HS256":
        secret = bytes.fromhex(key["secretHex"])
        return hmac.compare_digest(hmac.digest(secret, message, hashlib.sha256), signature)
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key["publicHex"])).verify(
            signature, message
        )
    except InvalidSignature:
        return False
    return True


def read(data: bytes, payload_type: str) -> tuple[bytes, str]:
    """Return the payload and the key that signed it."""
    outer = _strict(data)
    if not isinstance(outer, dict) or outer.keys() != {"v", "payloadType", "payload", "sigs"}:
        raise Refusal("malformed")
    if outer["v"] != 1 or isinstance(outer["v"], bool):
        raise Refusal("malformed")
    if outer["payloadType"] != payload_type:
        raise Refusal("wrong_type")
    payload = _base64(outer["payload"])
    kind = payload_type.encode()
    message = b"FDv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    signatures = list(_signatures(outer["sigs"]))
    if len({kid for kid, _ in signatures}) != len(signatures):
        raise Refusal("malformed")
    usable = [
        (kid, signature)
        for kid, signature in signatures
        if KEYS.get(kid, {}).get("payloadType") == payload_type
    ]
    for kid, signature in usable:
        if _holds(KEYS[kid], message, signature):
            return payload, kid
    raise Refusal("bad_signature" if usable else "unknown_key")


def test_the_committed_vectors_are_what_the_code_writes() -> None:
    written = runpy.run_path(str(PROJECT / "tests" / "golden" / "write_vectors.py"))
    on_disk = {path.name: path.read_text(encoding="utf-8") for path in VECTORS.iterdir()}
    assert on_disk == written["vector_texts"](), "write them again: make schemas"


def test_every_vector_says_that_its_keys_are_test_keys() -> None:
    for name in ("derivations", "envelopes", "refusals"):
        assert _load(name)["note"].startswith("TEST KEYS")
    assert all("TEST-HOST" in kid or "lane:TEST" in kid for kid in KEYS)


@pytest.mark.parametrize("kid", KEYS)
def test_a_key_is_derived_as_documented(kid: str) -> None:
    key = KEYS[kid]
    parts = kid.split("/") + ([] if key["alg"] == "HS256" else [key["alg"]])
    info = b"fleet-dispatch v1\0" + b"\0".join(part.encode() for part in parts)
    secret = _hkdf(bytes.fromhex(_load("derivations")["masterHex"]), info)
    assert secret.hex() == key["secretHex"]
    if key["alg"] == "Ed25519":
        public = Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
        assert public.hex() == key["publicHex"]


@pytest.mark.parametrize("vector", _load("envelopes")["envelopes"], ids=lambda item: item["name"])
def test_an_honest_envelope_is_read(vector: dict[str, str]) -> None:
    payload, kid = read(vector["envelope"].encode(), vector["payloadType"])
    assert base64.b64encode(payload).decode() == vector["payloadBase64"]
    assert kid == vector["kid"]


@pytest.mark.parametrize("vector", REFUSALS["refusedEnvelopes"], ids=lambda item: item["name"])
def test_an_envelope_with_one_thing_wrong_is_refused_with_its_code(vector: dict[str, str]) -> None:
    text = vector.get("envelope")
    data = base64.b64decode(vector["envelopeBase64"]) if text is None else text.encode()
    with pytest.raises(Refusal) as refused:
        read(data, REFUSALS["payloadType"])
    assert str(refused.value) == vector["code"]


@pytest.mark.parametrize("vector", REFUSALS["refusedClaims"], ids=lambda item: item["name"])
def test_claims_that_are_refused_were_signed_all_the_same(vector: dict[str, str]) -> None:
    """Which claims are refused is what docs/wire.md says of a job; here: nothing else is wrong."""
    payload, kid = read(vector["envelope"].encode(), REFUSALS["payloadType"])
    reader = REFUSALS["reader"]
    try:
        claims = _strict(payload)
    except Refusal:
        assert vector["code"] == "malformed"
        return
    reasons = {
        "foreign_key": (claims["iss"], claims["aud"]) != (kid.split("/")[0], kid.split("/")[3]),
        "moved": claims.get("jti") != reader["jobId"],
        "lane": claims["lane"] not in reader["lanes"],
        "not_yet_valid": str(claims["iat"]) > str(reader["now"] + 120),
        "lifetime": not 0 < int(claims["exp"]) - int(claims["iat"]) <= 604_800,
    }
    assert vector["code"] == "malformed" or reasons[vector["code"]]
