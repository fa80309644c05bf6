from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from contracts.envelope import JOB_TYPE, RECEIPT_TYPE, RESULT_TYPE
from contracts.errors import KeysRefused
from dispatch.algorithms import ED25519, build_signer, build_verifier, checking_part
from dispatch.keys import (
    BY_HOST,
    BY_SENDER,
    JOB,
    RECEIPT,
    RESULT,
    KeyId,
    derive_secret,
    parse_key_id,
)

_NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)
_IDS = st.builds(
    KeyId,
    _NAMES,
    st.integers(1, 999_999),
    st.sampled_from([*BY_SENDER, *BY_HOST, RECEIPT]),
    st.builds(lambda kind, name: f"{kind}:{name}", st.sampled_from(["host", "lane"]), _NAMES),
)


PURPOSES = ("job", "cancel", "ask", "result", "event", "delivery", "held", "receipt")


@given(_IDS)
def test_a_key_id_reads_back_as_written(key_id: KeyId) -> None:
    assert parse_key_id(key_id.text) == key_id


@given(_IDS, _IDS)
def test_two_key_ids_never_share_a_secret(one: KeyId, other: KeyId) -> None:
    master = bytes(32)
    assert (derive_secret(master, one) == derive_secret(master, other)) == (one == other)


@given(st.text())
def test_any_text_is_a_key_id_or_none(text: str) -> None:
    key_id = parse_key_id(text)
    assert key_id is None or key_id.text == text


@pytest.mark.parametrize(
    "text",
    [
        "alice/1/job",
        "alice/1/job/host:PC/x",
        "alice/0/job/host:PC",
        "alice/01/job/host:PC",
        "alice/+1/job/host:PC",
        "alice/1/approval/host:PC",
        "alice/1/job/user:PC",
        "alice/1/job/host:",
        "alice/1/job/host:a b",
        "alice/1/job/host:PC\n",
        "-alice/1/job/host:PC",
    ],
)
def test_what_is_almost_a_key_id_is_none(text: str) -> None:
    assert parse_key_id(text) is None


def test_the_derivation_is_the_documented_one() -> None:
    """Both sides of a fleet derive alone: another program must come to the same bytes."""
    key_id = KeyId("alice", 1, "job", "host:PC")
    info = b"fleet-dispatch v1\0alice\x001\0job\0host:PC"
    expected = HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(b"m" * 32)
    assert derive_secret(b"m" * 32, key_id) == expected
    assert expected.hex() == "5a271ad66680553e5289fc1512313c77627a6a6213b4f891c40f8d1288ba9fc3"


def test_a_purpose_signs_one_payload_type() -> None:
    types = {}
    for purpose in PURPOSES:
        signer = build_signer("HS256", KeyId("a", 1, purpose, "host:h"), b"k" * 32)
        types[purpose] = build_verifier(
            "HS256", KeyId("a", 1, purpose, "host:h"), b"k"
        ).payload_type
        assert signer.kid == f"a/1/{purpose}/host:h"
    assert types == {
        purpose: f"application/vnd.fleet-dispatch.{purpose}.v1+json" for purpose in PURPOSES
    }
    assert (types[JOB], types[RESULT], types[RECEIPT]) == (JOB_TYPE, RESULT_TYPE, RECEIPT_TYPE)
    others = ("approval", "message", "jobs", "JOB", "")
    readable = [p for p in (*PURPOSES, *others) if parse_key_id(f"a/1/{p}/host:h") is not None]
    assert readable == list(PURPOSES), "a purpose more is an ADR more"


def test_the_receipt_key_is_derived_like_every_other() -> None:
    secret = derive_secret(b"m" * 32, KeyId("alice", 1, "receipt", "lane:MAIN"))
    info = b"fleet-dispatch v1\0alice\x001\0receipt\0lane:MAIN"
    assert secret == HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(b"m" * 32)


@pytest.mark.parametrize("algorithm", ["HS256", "Ed25519"])
def test_a_signature_holds_for_its_message_and_key_alone(algorithm: str) -> None:
    key_id = KeyId("a", 1, JOB, "host:h")
    signer = build_signer(algorithm, key_id, b"k" * 32)
    verifier = build_verifier(algorithm, key_id, checking_part(algorithm, b"k" * 32))
    other = build_verifier(algorithm, key_id, checking_part(algorithm, b"j" * 32))
    signature = signer.sign(b"message")
    assert verifier.verify(b"message", signature)
    assert not verifier.verify(b"messagE", signature)
    assert not verifier.verify(b"message", signature[:-1])
    assert not verifier.verify(b"message", b"")
    assert not other.verify(b"message", signature)


def test_the_public_half_is_no_secret_of_either_algorithm() -> None:
    """Whoever checks with Ed25519 holds nothing that signs, under either algorithm."""
    master, key_id = b"m" * 32, KeyId("a", 1, JOB, "host:h")
    seed = derive_secret(master, key_id, ED25519)
    public = checking_part(ED25519, seed)
    assert seed != derive_secret(master, key_id), "two algorithms never share a secret"
    verifier = build_verifier(ED25519, key_id, public)
    for guess in (public, seed):
        as_hmac = build_signer("HS256", key_id, guess).sign(b"message")
        assert not verifier.verify(b"message", as_hmac)
        assert not verifier.verify(b"message", as_hmac * 2)
    as_seed = build_signer(ED25519, key_id, public).sign(b"message")
    assert not verifier.verify(b"message", as_seed)


@pytest.mark.parametrize("algorithm", ["HS256", "Ed25519"])
def test_a_secret_is_in_no_representation(algorithm: str) -> None:
    secret = b"hunter2hunter2hunter2hunter2hunt"
    assert "hunter2" not in repr(build_signer(algorithm, KeyId("a", 1, JOB, "host:h"), secret))


@pytest.mark.parametrize("algorithm", ["none", "hs256", "", "RS256"])
def test_an_unknown_algorithm_is_refused(algorithm: str) -> None:
    for build in (build_signer, build_verifier):
        with pytest.raises(KeysRefused, match="algorithm"):
            build(algorithm, KeyId("a", 1, JOB, "host:h"), b"k")
