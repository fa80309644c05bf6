"""Envelopes with one thing wrong, and the code with which each is refused: the one table.

The keys are test keys, derived from a master that everybody knows. The table is also written into
`contracts/vectors/`, so nothing here is random.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from contracts.envelope import (
    CANCEL_TYPE,
    JOB_TYPE,
    RESULT_TYPE,
    Signer,
    Verifier,
    pre_authentication_encoding,
    seal,
)
from dispatch.algorithms import build_signer, build_verifier, checking_part
from dispatch.keys import PAYLOAD_TYPES, KeyId, derive_secret

TEST_MASTER: Final = bytes(range(32))  # known to everybody: it signs for tests alone
ALGORITHM_OF: Final = {1: "HS256", 2: "Ed25519", 3: "HS256"}  # by generation
NOW: Final = 1_700_000_000
JOB: Final = {
    "iss": "test-sender",
    "aud": "host:TEST-HOST",
    "lane": "TEST",
    "kind": "run_agent",
    "jti": "0123456789abcdef0123",
    "iat": NOW,
    "exp": NOW + 3_600,
    "payload": {"agent": "codex", "task": "say Grüß Gott", "repo": "/srv/app", "ticket": "T-1"},
}
PAYLOAD: Final = json.dumps(JOB, ensure_ascii=False, separators=(",", ":")).encode()

Outer = dict[str, Any]
Change = Callable[[Outer], object]


def key_id(generation: int, purpose: str = "job", aud: str = "host:TEST-HOST") -> KeyId:
    return KeyId("test-sender", generation, purpose, aud)


def signer(key: KeyId, master: bytes = TEST_MASTER) -> Signer:
    algorithm = ALGORITHM_OF[key.generation]
    return build_signer(algorithm, key, derive_secret(master, key, algorithm))


def verifier(key: KeyId) -> Verifier:
    algorithm = ALGORITHM_OF[key.generation]
    secret = derive_secret(TEST_MASTER, key, algorithm)
    return build_verifier(algorithm, key, checking_part(algorithm, secret))


# What the reader of the table holds. Generation 3 is revoked: he knows it no more.
KNOWN: Final = [key_id(generation, purpose) for purpose in PAYLOAD_TYPES for generation in (1, 2)]
KNOWN_AUDIENCES: Final = [key_id(generation, "job", "lane:TEST") for generation in (1, 2)]


class Reader:
    """A keyring of the known keys."""

    def __init__(self) -> None:
        self._keys = {key.text: verifier(key) for key in (*KNOWN, *KNOWN_AUDIENCES)}

    def verifier(self, kid: str) -> Verifier | None:
        return self._keys.get(kid)


def sealed(generation: int, payload: bytes = PAYLOAD) -> str:
    return seal(payload, JOB_TYPE, [signer(key_id(generation))])


def set_at(path: str, value: object) -> Change:
    def change(outer: Outer) -> None:
        target: Any = outer
        *parents, last = path.split(".")
        for part in parents:
            target = target[int(part) if part.isdigit() else part]
        target[int(last) if last.isdigit() else last] = value

    return change


def edited(path: str, edit: Callable[[Any], object]) -> Change:
    def change(outer: Outer) -> None:
        target: Any = outer
        for part in path.split("."):
            target = target[int(part) if part.isdigit() else part]
        set_at(path, edit(target))(outer)

    return change


def signed_by(*signers: Signer, payload_type: str = JOB_TYPE, kid: str = "") -> Change:
    """Sign the payload that stands there once more, as others would."""

    def change(outer: Outer) -> None:
        message = pre_authentication_encoding(payload_type, base64.b64decode(outer["payload"]))
        outer["sigs"] = [
            {"kid": kid or item.kid, "mac": base64.b64encode(item.sign(message)).decode()}
            for item in signers
        ]

    return change


def confused(algorithm: str, half: str) -> Change:
    """Sign with what a host holds of the other algorithm's key, under that key's id."""
    pair = key_id(2)
    seed = derive_secret(TEST_MASTER, pair, "Ed25519")
    known = {"public": checking_part("Ed25519", seed), "secret": derive_secret(TEST_MASTER, pair)}
    return signed_by(build_signer(algorithm, pair, known[half]))


def _loose(text: str) -> str:
    """Return base64 with a stray bit behind the last byte: the same bytes, another text."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    body = text.rstrip("=")
    assert body != text
    return body[:-1] + alphabet[alphabet.index(body[-1]) + 1] + "=" * (len(text) - len(body))


_STRANGER: Final = bytes(reversed(range(32)))
_BODY: Final = base64.b64encode(PAYLOAD).decode()

OUTER: Final[dict[str, tuple[Change, str]]] = {
    "another payload": (set_at("payload", base64.b64encode(b'{"t":1}').decode()), "bad_signature"),
    "an empty payload": (set_at("payload", ""), "bad_signature"),
    "another mac": (set_at("sigs.0.mac", base64.b64encode(b"0" * 32).decode()), "bad_signature"),
    "a mac of 64 bytes": (
        set_at("sigs.0.mac", base64.b64encode(b"0" * 64).decode()),
        "bad_signature",
    ),
    "an empty mac": (set_at("sigs.0.mac", ""), "bad_signature"),
    "half a mac": (edited("sigs.0.mac", lambda mac: mac[:20]), "bad_signature"),
    "a mac twice over": (
        edited(
            "sigs.0.mac",
            lambda mac: base64.b64encode(base64.b64decode(mac) * 2).decode(),
        ),
        "bad_signature",
    ),
    "another known kid": (set_at("sigs.0.kid", key_id(1, aud="lane:TEST").text), "bad_signature"),
    "an unknown generation": (set_at("sigs.0.kid", key_id(9).text), "unknown_key"),
    "a revoked key": (signed_by(signer(key_id(3))), "unknown_key"),
    "a kid with a space": (edited("sigs.0.kid", lambda kid: f"{kid} "), "unknown_key"),
    "a kid in other letters": (edited("sigs.0.kid", str.upper), "unknown_key"),
    "signed by a stranger": (signed_by(signer(KeyId("x", 1, "job", "host:X"))), "unknown_key"),
    "a stranger under our kid": (signed_by(signer(key_id(1), _STRANGER)), "bad_signature"),
    "the key of another purpose": (signed_by(signer(key_id(1, "result"))), "unknown_key"),
    "the cancel key of the same host": (signed_by(signer(key_id(2, "cancel"))), "unknown_key"),
    "a result's key under a job's kid": (
        signed_by(signer(key_id(1, "result")), kid=key_id(1).text),
        "bad_signature",
    ),
    "the key of another host": (
        signed_by(signer(key_id(1, aud="host:OTHER")), kid=key_id(1).text),
        "bad_signature",
    ),
    "signed as another type": (
        signed_by(signer(key_id(1)), payload_type=CANCEL_TYPE),
        "bad_signature",
    ),
    "the other algorithm's signature": (
        signed_by(signer(key_id(1)), kid=key_id(2).text),
        "bad_signature",
    ),
    "a public key used as an HMAC secret": (confused("HS256", "public"), "bad_signature"),
    "a public key used as a seed": (confused("Ed25519", "public"), "bad_signature"),
    "an HMAC secret used as a seed": (confused("Ed25519", "secret"), "bad_signature"),
    "an HMAC secret under the id of a pair": (confused("HS256", "secret"), "bad_signature"),
    "another type": (set_at("payloadType", RESULT_TYPE), "wrong_type"),
    "a type in other letters": (set_at("payloadType", JOB_TYPE.upper()), "wrong_type"),
    "an empty type": (set_at("payloadType", ""), "wrong_type"),
    "a type that is no text": (set_at("payloadType", 1), "wrong_type"),
    "no type": (lambda outer: outer.pop("payloadType"), "malformed"),
    "no payload": (lambda outer: outer.pop("payload"), "malformed"),
    "no signatures": (lambda outer: outer.pop("sigs"), "malformed"),
    "no version": (lambda outer: outer.pop("v"), "malformed"),
    "an unknown field": (set_at("alg", "none"), "malformed"),
    "version 2": (set_at("v", 2), "malformed"),
    "version true": (set_at("v", True), "malformed"),
    "version 1.0": (set_at("v", 1.0), "malformed"),
    "version as text": (set_at("v", "1"), "malformed"),
    "a payload that is an object": (set_at("payload", {"task": "x"}), "malformed"),
    "a null payload": (set_at("payload", None), "malformed"),
    "a payload outside base64": (set_at("payload", "%%%%"), "malformed"),
    "a payload of URL-safe base64": (set_at("payload", "_-_-"), "malformed"),
    "a payload beyond ASCII": (set_at("payload", "é" * 4), "malformed"),
    "base64 with a line break": (edited("payload", lambda body: body + "\n"), "malformed"),
    "base64 with a space inside": (edited("payload", lambda b: f"{b[:8]} {b[8:]}"), "malformed"),
    "base64 with a stray bit": (edited("sigs.0.mac", _loose), "malformed"),
    "base64 without padding": (edited("sigs.0.mac", lambda mac: mac.rstrip("=")), "malformed"),
    "base64 with padding twice": (edited("sigs.0.mac", lambda mac: mac + "===="), "malformed"),
    "an empty list of signatures": (set_at("sigs", []), "malformed"),
    "signatures that are no list": (set_at("sigs", {"kid": "k", "mac": ""}), "malformed"),
    "five signatures": (
        set_at("sigs", [{"kid": f"k{n}", "mac": ""} for n in range(5)]),
        "malformed",
    ),
    "one key signing twice": (edited("sigs", lambda sigs: sigs * 2), "malformed"),
    "one kid, once with another mac": (
        edited("sigs", lambda sigs: [*sigs, {**sigs[0], "mac": ""}]),
        "malformed",
    ),
    "a signature that is text": (set_at("sigs.0", "x"), "malformed"),
    "a signature without kid": (lambda outer: outer["sigs"][0].pop("kid"), "malformed"),
    "a signature without mac": (lambda outer: outer["sigs"][0].pop("mac"), "malformed"),
    "a signature with an algorithm": (set_at("sigs.0.alg", "HS256"), "malformed"),
    "a kid that is a number": (set_at("sigs.0.kid", 1), "malformed"),
    "an empty kid": (set_at("sigs.0.kid", ""), "malformed"),
    "an endless kid": (set_at("sigs.0.kid", "k" * 301), "malformed"),
    "a mac that is null": (set_at("sigs.0.mac", None), "malformed"),
}

_HONEST: Final = sealed(1)
TEXTS: Final[dict[str, bytes]] = {  # every one of them is `malformed`
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "a string": b'"x"',
    "an empty object": b"{}",
    "half of it": _HONEST.encode()[: len(_HONEST) // 2],
    "two of them": _HONEST.encode() * 2,
    "a byte order mark": b"\xef\xbb\xbf" + _HONEST.encode(),
    "UTF-16": _HONEST.encode("utf-16"),
    "a byte that is not UTF-8": _HONEST.encode().replace(b"TEST-HOST", b"TEST-HO\xff"),
    "a zero byte at the end": _HONEST.encode() + b"\x00",
    "a key twice, the second honest": _HONEST.replace('{"v":1', '{"v":2,"v":1').encode(),
    "a key twice, the first honest": _HONEST.replace('{"v":1', '{"v":1,"v":2').encode(),
    "a payload twice": (_HONEST[:-1] + ',"payload":""}').encode(),
    "a kid twice": _HONEST.replace('"kid":', '"kid":"x","kid":').encode(),
    "a key in escaped letters, twice": (_HONEST[:-1] + ',"\\u0076":1}').encode(),
    "a lone surrogate": _HONEST.replace("TEST-HOST", "\\ud800").encode(),
    "a comment": b"/**/" + _HONEST.encode(),
    "a trailing comma": _HONEST[:-1].encode() + b",}",
    "NaN": _HONEST.replace('"v":1', '"v":NaN').encode(),
    "an endless integer": _HONEST.replace('"v":1', '"v":' + "1" * 5_000).encode(),
    "deep nesting": b"[" * 100_000,
    "17 levels": _HONEST.replace('"v":1', '"v":' + "[" * 17 + "]" * 17).encode(),
}


def _job(**changes: object) -> bytes:
    claims = {name: value for name, value in (JOB | changes).items() if value is not None}
    return json.dumps(claims, ensure_ascii=False).encode()


@dataclass(frozen=True)
class Inner:
    """A payload that is honestly signed and refused all the same."""

    payload: bytes
    code: str
    aud: str = "host:TEST-HOST"


_TEXT: Final = PAYLOAD.decode()
INNER: Final[dict[str, Inner]] = {
    "for another host": Inner(_job(aud="host:OTHER"), "foreign_key"),
    "for a lane, signed with the host's key": Inner(_job(aud="lane:TEST"), "foreign_key"),
    "for a lane of another name": Inner(_job(aud="lane:TEST", lane="B"), "lane", "lane:TEST"),
    "from another sender": Inner(_job(iss="mallory"), "foreign_key"),
    "a lane that is not served": Inner(_job(lane="B"), "lane"),
    "under another id": Inner(_job(jti="f" * 20), "moved"),
    "issued in the future": Inner(_job(iat=NOW + 121, exp=NOW + 999), "not_yet_valid"),
    "living too long": Inner(_job(exp=NOW + 604_801), "lifetime"),
    "ending before it begins": Inner(_job(exp=NOW - 1), "lifetime"),
    "an unknown claim": Inner(_job(nbf=NOW), "malformed"),
    "no id": Inner(_job(jti=None), "malformed"),
    "an id with a path": Inner(_job(jti="../../../etc/passwd"), "malformed"),
    "a time as text": Inner(_job(iat=str(NOW)), "malformed"),
    "a time as a fraction": Inner(_job(iat=NOW + 0.5), "malformed"),
    "a time that is true": Inner(_job(exp=True), "malformed"),
    "a payload that is text": Inner(_job(payload="{}"), "malformed"),
    "an audience of another kind": Inner(_job(aud="user:TEST-HOST"), "malformed"),
    "a byte order mark": Inner(b"\xef\xbb\xbf" + PAYLOAD, "malformed"),
    "a key twice": Inner(_TEXT.replace('{"iss"', '{"iss":"x","iss"', 1).encode(), "malformed"),
    "a lone surrogate": Inner(_TEXT.replace("say", "\\udc00", 1).encode(), "malformed"),
    "deep nesting": Inner(_TEXT.replace('"codex"', "[" * 20 + "]" * 20, 1).encode(), "malformed"),
    "no JSON": Inner(b"job", "malformed"),
}


def outer_texts() -> dict[str, tuple[str, str]]:
    """Return name -> (envelope, code) of the table, over an HMAC and an Ed25519 envelope."""
    found = {}
    for name, (change, code) in OUTER.items():
        for generation in (1, 2):
            outer = json.loads(sealed(generation))
            try:
                change(outer)
            except AssertionError:
                continue  # an Ed25519 signature's base64 has its own padding
            found[f"{name} ({ALGORITHM_OF[generation]})"] = (json.dumps(outer), code)
    return found


def inner_texts() -> dict[str, tuple[str, str]]:
    """Return name -> (envelope, code) of what is honestly signed, in both algorithms."""
    return {
        f"{name} ({ALGORITHM_OF[generation]})": (
            seal(case.payload, JOB_TYPE, [signer(key_id(generation, aud=case.aud))]),
            case.code,
        )
        for name, case in INNER.items()
        for generation in (1, 2)
    }
