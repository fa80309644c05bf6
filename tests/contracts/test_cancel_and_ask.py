"""What a sender orders and asks about its own jobs: exact form, then audience and time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts import limits
from contracts.ask import AskClaims, Asked, check_ask_claims, read_ask_claims
from contracts.cancel import CancelClaims, check_cancel_claims, read_cancel_claims
from contracts.errors import EnvelopeRefused
from contracts.lifetime import check_lifetime

NOW = 1_700_000_000
OURS = frozenset({"host:A", "lane:L"})
CANCEL: dict[str, Any] = {
    "iss": "alice",
    "aud": "lane:L",
    "jti": "0123456789abcdef0123",
    "iat": NOW,
    "exp": NOW + 3_600,
    "jobSha256": "0a" * 32,
    "why": "the plan changed",
}
ASK: dict[str, Any] = {
    "iss": "alice",
    "aud": "host:A",
    "jti": "0123456789abcdef0123",
    "iat": NOW,
    "exp": NOW + 60,
    "nonce": "f" * 20,
    "what": "events",
    "fromSeq": 7,
}
# Claims that are wrong in either of the two.
WRONG: list[tuple[str, object]] = [
    ("iss", ""),
    ("iss", "a/b"),
    ("iss", 1),
    ("aud", "A"),
    ("aud", "host:"),
    ("aud", "host:a/b"),
    ("aud", "user:A"),
    ("aud", ["host:A"]),
    ("jti", "short"),
    ("jti", "../../../../../etc"),
    ("jti", None),
    ("iat", "1"),
    ("iat", True),
    ("exp", 1.5),
    ("exp", None),
    ("surplus", 1),
]


def _cancel(**changes: Any) -> CancelClaims:
    return read_cancel_claims(json.dumps({**CANCEL, **changes}).encode())


def _ask(**changes: Any) -> AskClaims:
    return read_ask_claims(json.dumps({**ASK, **changes}).encode())


def test_well_formed_claims_are_read_as_they_stand() -> None:
    assert _cancel().model_dump() == CANCEL
    assert _ask().model_dump() == ASK
    assert _ask().what is Asked.EVENTS
    assert (
        read_ask_claims(
            json.dumps({name: value for name, value in ASK.items() if name != "fromSeq"}).encode()
        ).fromSeq
        == 0
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *WRONG,
        ("jobSha256", "0A" * 32),
        ("jobSha256", "0a" * 31),
        ("jobSha256", "0a" * 32 + "\n"),
        ("why", 1),
        ("why", "x" * 301),
    ],
)
def test_a_malformed_or_unknown_claim_of_a_cancel_is_refused(name: str, value: object) -> None:
    with pytest.raises(EnvelopeRefused) as refused:
        _cancel(**{name: value})
    assert refused.value.code == "malformed"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *WRONG,
        ("aud", "lane:L"),
        ("nonce", ""),
        ("nonce", "F" * 20),
        ("what", "everything"),
        ("what", None),
        ("fromSeq", -1),
        ("fromSeq", True),
        ("fromSeq", "1"),
    ],
)
def test_a_malformed_or_unknown_claim_of_an_ask_is_refused(name: str, value: object) -> None:
    with pytest.raises(EnvelopeRefused) as refused:
        _ask(**{name: value})
    assert refused.value.code == "malformed"


@pytest.mark.parametrize("name", sorted(set(CANCEL) - {"why"}))
def test_every_claim_of_a_cancel_but_its_words_is_needed(name: str) -> None:
    with pytest.raises(EnvelopeRefused):
        read_cancel_claims(json.dumps({k: v for k, v in CANCEL.items() if k != name}).encode())


@pytest.mark.parametrize("name", sorted(set(ASK) - {"fromSeq"}))
def test_every_claim_of_an_ask_but_the_number_is_needed(name: str) -> None:
    with pytest.raises(EnvelopeRefused):
        read_ask_claims(json.dumps({k: v for k, v in ASK.items() if k != name}).encode())


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"\xff", b'{"iss":"a","iss":"b"}', b" " * (limits.CONTROL_MAX_BYTES + 1)]
)
def test_what_is_no_small_strict_object_is_neither(data: bytes) -> None:
    for read in (read_cancel_claims, read_ask_claims):
        with pytest.raises(EnvelopeRefused) as refused:
            read(data)
        assert refused.value.code == "malformed"


def test_only_the_addressed_host_or_a_host_of_the_lane_is_meant() -> None:
    check_cancel_claims(_cancel(), audiences=OURS, now=NOW)
    check_cancel_claims(_cancel(aud="host:A"), audiences=OURS, now=NOW)
    check_ask_claims(_ask(), audience="host:A", now=NOW)
    for aud in ("host:B", "host:a", "lane:M"):
        with pytest.raises(EnvelopeRefused) as refused:
            check_cancel_claims(_cancel(aud=aud), audiences=OURS, now=NOW)
        assert refused.value.code == "audience"
    with pytest.raises(EnvelopeRefused) as refused:
        check_ask_claims(_ask(), audience="host:B", now=NOW)
    assert refused.value.code == "audience"


@pytest.mark.parametrize(
    ("iat", "exp", "code"),
    [
        (NOW + limits.SKEW_S + 1, NOW + limits.SKEW_S + 2, "not_yet_valid"),
        (NOW, NOW, "lifetime"),
        (NOW, NOW - 1, "lifetime"),
        (NOW - 10, NOW + 91, "lifetime"),
        (NOW - limits.SKEW_S - 100, NOW - limits.SKEW_S, "expired"),
    ],
)
def test_age_future_and_length_have_limits_of_their_own(iat: int, exp: int, code: str) -> None:
    with pytest.raises(EnvelopeRefused) as refused:
        check_lifetime(iat, exp, longest_s=100, now=NOW)
    assert refused.value.code == code


def test_no_cancel_and_no_ask_lives_longer_than_it_may() -> None:
    with pytest.raises(EnvelopeRefused) as refused:
        check_cancel_claims(_cancel(exp=NOW + limits.CANCEL_TTL_MAX_S + 1), audiences=OURS, now=NOW)
    assert refused.value.code == "lifetime"
    with pytest.raises(EnvelopeRefused) as refused:
        check_ask_claims(_ask(exp=NOW + limits.ASK_TTL_MAX_S + 1), audience="host:A", now=NOW)
    assert refused.value.code == "lifetime"


@given(skew=st.integers(-limits.SKEW_S, limits.SKEW_S), ttl=st.integers(1, 1_000))
def test_a_skewed_clock_gives_no_message_a_second_life(skew: int, ttl: int) -> None:
    check_lifetime(NOW + skew, NOW + skew + ttl, longest_s=1_000, now=NOW)
    with pytest.raises(EnvelopeRefused):
        check_lifetime(
            NOW + skew, NOW + skew + ttl, longest_s=1_000, now=NOW + ttl + 2 * limits.SKEW_S
        )
