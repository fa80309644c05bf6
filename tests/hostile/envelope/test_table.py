"""Each envelope of the table is refused with its own code, and the honest one is read."""

from __future__ import annotations

import base64
import json

import pytest

from contracts import limits
from contracts.envelope import JOB_TYPE, open_envelope, pre_authentication_encoding, seal
from contracts.errors import EnvelopeRefused
from tests.hostile.envelope.cases import (
    ALGORITHM_OF,
    INNER,
    JOB,
    NOW,
    OUTER,
    PAYLOAD,
    TEXTS,
    Reader,
    inner_texts,
    key_id,
    outer_texts,
    sealed,
    signer,
)
from worker.verification import ExpiredJob, VerifiedJob, verify_job

READER = Reader()


def _verify(text: str, *, now: float = NOW) -> VerifiedJob:
    return verify_job(
        text,
        job_id=str(JOB["jti"]),
        keys=READER,
        host="TEST-HOST",
        lanes=["TEST"],
        now=now,
    )


def test_the_table_is_long_enough_and_its_honest_envelopes_are_read() -> None:
    assert len(OUTER) + len(TEXTS) + len(INNER) >= 100
    for generation in (1, 2):
        assert open_envelope(sealed(generation), READER, JOB_TYPE).payload == PAYLOAD
        assert _verify(sealed(generation)).claims.payload == JOB["payload"]


@pytest.mark.parametrize(("text", "code"), outer_texts().values(), ids=outer_texts().keys())
def test_an_envelope_with_one_thing_wrong_is_refused(text: str, code: str) -> None:
    with pytest.raises(EnvelopeRefused) as caught:
        open_envelope(text, READER, JOB_TYPE)
    assert caught.value.code == code


@pytest.mark.parametrize("data", TEXTS.values(), ids=TEXTS.keys())
def test_what_is_no_envelope_at_all_is_refused(data: bytes) -> None:
    with pytest.raises(EnvelopeRefused) as caught:
        open_envelope(data, READER, JOB_TYPE)
    assert caught.value.code == "malformed"


@pytest.mark.parametrize(("text", "code"), inner_texts().values(), ids=inner_texts().keys())
def test_what_is_honestly_signed_and_not_for_us_now_is_refused(text: str, code: str) -> None:
    assert open_envelope(text, READER, JOB_TYPE), "the signature holds"
    with pytest.raises(EnvelopeRefused) as caught:
        _verify(text)
    assert caught.value.code == code


@pytest.mark.parametrize("generation", [1, 2])
def test_a_job_whose_time_is_over_is_that_and_nothing_more(generation: int) -> None:
    end = int(str(JOB["exp"])) + limits.SKEW_S
    assert type(_verify(sealed(generation), now=end - 1)) is VerifiedJob
    assert type(_verify(sealed(generation), now=end)) is ExpiredJob


def test_an_envelope_beyond_the_limit_is_refused_unread() -> None:
    with pytest.raises(EnvelopeRefused) as caught:
        open_envelope(b" " * (limits.ENVELOPE_MAX_BYTES + 1), READER, JOB_TYPE)
    assert caught.value.code == "too_large"


def test_a_payload_beyond_the_limit_is_refused_though_its_signature_would_hold() -> None:
    large = b"x" * (limits.PAYLOAD_MAX_BYTES + 1)
    mac = signer(key_id(1)).sign(pre_authentication_encoding(JOB_TYPE, large))
    outer = json.loads(sealed(1))
    outer["payload"] = base64.b64encode(large).decode()
    outer["sigs"][0]["mac"] = base64.b64encode(mac).decode()
    with pytest.raises(EnvelopeRefused) as caught:
        open_envelope(json.dumps(outer), READER, JOB_TYPE)
    assert caught.value.code == "too_large"


@pytest.mark.parametrize("order", [(1, 3), (3, 1), (2, 3), (3, 2), (1, 2), (2, 1)])
def test_one_known_key_of_two_is_enough(order: tuple[int, int]) -> None:
    text = seal(PAYLOAD, JOB_TYPE, [signer(key_id(number)) for number in order])
    known = next(number for number in order if number in (1, 2))
    assert open_envelope(text, READER, JOB_TYPE).kid == key_id(known).text
    assert ALGORITHM_OF[known]


def test_a_bad_signature_beside_a_good_one_does_not_spoil_it() -> None:
    outer = json.loads(seal(PAYLOAD, JOB_TYPE, [signer(key_id(2)), signer(key_id(1))]))
    outer["sigs"][0]["mac"] = outer["sigs"][1]["mac"]
    assert open_envelope(json.dumps(outer), READER, JOB_TYPE).kid == key_id(1).text
