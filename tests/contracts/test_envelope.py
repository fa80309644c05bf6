"""The signed envelope: exact bytes in, exact bytes out. What is wrong: tests/hostile/envelope."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts import limits
from contracts.envelope import (
    JOB_TYPE,
    RESULT_TYPE,
    open_envelope,
    pre_authentication_encoding,
    seal,
)
from contracts.errors import EnvelopeRefused, InvalidRequest
from tests.support.hmac_keys import HmacKey, Keys

KEY = HmacKey("alice/1/job/host:A", b"k" * 32)
NEXT_KEY = HmacKey("alice/2/job/host:A", b"n" * 32)
RESULT_KEY = HmacKey("alice/1/result/host:A", b"r" * 32, RESULT_TYPE)
FOREIGN = HmacKey("mallory/1/job/host:A", b"m" * 32)
KEYS = Keys(KEY, NEXT_KEY, RESULT_KEY)
PAYLOAD = b'{"task":"x"}'


def _sealed(payload: bytes = PAYLOAD, *keys: HmacKey) -> dict[str, Any]:
    outer = json.loads(seal(payload, JOB_TYPE, keys or (KEY,)))
    assert isinstance(outer, dict)
    return outer


def test_a_payload_beyond_the_limit_is_not_sealed() -> None:
    large = b"x" * (limits.PAYLOAD_MAX_BYTES + 1)
    with pytest.raises(InvalidRequest, match=f"{len(large)} bytes .*{limits.PAYLOAD_MAX_BYTES}"):
        seal(large, JOB_TYPE, [KEY])


def test_the_largest_payload_passes_whole() -> None:
    large = b"\xff" * limits.PAYLOAD_MAX_BYTES
    text = seal(large, JOB_TYPE, [KEY, NEXT_KEY])
    assert open_envelope(text, KEYS, JOB_TYPE).payload == large


def test_a_key_signs_its_own_type_and_no_other() -> None:
    text = seal(PAYLOAD, RESULT_TYPE, [RESULT_KEY])
    assert open_envelope(text, KEYS, RESULT_TYPE).kid == RESULT_KEY.kid
    with pytest.raises(EnvelopeRefused) as caught:
        open_envelope(text, KEYS, JOB_TYPE)
    assert caught.value.code == "wrong_type"


@pytest.mark.parametrize("signers", [[], [HmacKey(f"k{i}", b"k") for i in range(5)]])
def test_an_envelope_is_signed_one_to_four_times(signers: list[HmacKey]) -> None:
    with pytest.raises(ValueError, match="1 to 4"):
        seal(PAYLOAD, JOB_TYPE, signers)


def test_what_is_signed_names_type_and_lengths_so_that_no_two_messages_are_one() -> None:
    assert pre_authentication_encoding("t", b"ab") == b"FDv1 1 t 2 ab"
    assert pre_authentication_encoding("té", b"") == b"FDv1 3 t\xc3\xa9 0 "


def test_a_refusal_never_repeats_the_payload() -> None:
    outer = _sealed(b"hunter2")
    outer["sigs"][0]["mac"] = ""
    with pytest.raises(EnvelopeRefused) as caught:
        open_envelope(json.dumps(outer), KEYS, JOB_TYPE)
    assert "hunter2" not in str(caught.value)
    assert outer["payload"] not in str(caught.value)


@given(payload=st.binary(max_size=300))
def test_the_bytes_that_come_out_are_the_bytes_that_went_in(payload: bytes) -> None:
    text = seal(payload, JOB_TYPE, [KEY])
    assert open_envelope(text, KEYS, JOB_TYPE).payload == payload
    assert open_envelope(text.encode(), KEYS, JOB_TYPE).payload == payload
