from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from contracts.envelope import JOB_TYPE, RECEIPT_TYPE, RESULT_TYPE
from contracts.errors import KeysRefused
from dispatch.keys import JOB, RECEIPT, RESULT, KeyId, build_key, derive_secret, parse_key_id

_NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)
_IDS = st.builds(
    KeyId,
    _NAMES,
    st.integers(1, 999_999),
    st.sampled_from([JOB, RESULT, RECEIPT]),
    st.builds(lambda kind, name: f"{kind}:{name}", st.sampled_from(["host", "lane"]), _NAMES),
)


PURPOSES = ("job", "result", "receipt", "cancel", "event", "approval", "message", "")


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
        "alice/1/cancel/host:PC",
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
    assert build_key("HS256", KeyId("a", 1, JOB, "host:h"), b"k").payload_type == JOB_TYPE
    assert build_key("HS256", KeyId("a", 1, RESULT, "host:h"), b"k").payload_type == RESULT_TYPE
    assert build_key("HS256", KeyId("a", 1, RECEIPT, "lane:l"), b"k").payload_type == RECEIPT_TYPE
    readable = [p for p in PURPOSES if parse_key_id(f"a/1/{p}/host:h") is not None]
    assert readable == ["job", "result", "receipt"], "a purpose more is an ADR more"


def test_the_receipt_key_is_derived_like_every_other() -> None:
    secret = derive_secret(b"m" * 32, KeyId("alice", 1, "receipt", "lane:MAIN"))
    info = b"fleet-dispatch v1\0alice\x001\0receipt\0lane:MAIN"
    assert secret == HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(b"m" * 32)


def test_a_signature_holds_for_its_message_and_key_alone() -> None:
    key = build_key("HS256", KeyId("a", 1, JOB, "host:h"), b"k" * 32)
    other = build_key("HS256", KeyId("a", 1, JOB, "host:h"), b"j" * 32)
    signature = key.sign(b"message")
    assert key.verify(b"message", signature)
    assert not key.verify(b"messagE", signature)
    assert not key.verify(b"message", signature[:-1])
    assert not key.verify(b"message", b"")
    assert not other.verify(b"message", signature)


def test_a_secret_is_in_no_representation() -> None:
    key = build_key("HS256", KeyId("a", 1, JOB, "host:h"), b"hunter2hunter2")
    assert "hunter2" not in repr(key)


def test_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(KeysRefused, match="algorithm"):
        build_key("none", KeyId("a", 1, JOB, "host:h"), b"k")
