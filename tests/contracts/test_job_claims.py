"""The claims of a job: exact form, then audience and time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts import limits
from contracts.errors import EnvelopeRefused
from contracts.job_claims import JobClaims, check_job_claims, read_job_claims

NOW = 1_700_000_000
OURS = frozenset({"host:A", "lane:L"})
DAY = 24 * 3_600


def _claims(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "iss": "alice",
        "aud": "host:A",
        "lane": "L",
        "kind": "run_agent",
        "jti": "0123456789abcdef0123",
        "iat": NOW,
        "exp": NOW + DAY,
        "payload": {"agent": "codex"},
    }
    return {**base, **changes}


def _read(**changes: Any) -> JobClaims:
    return read_job_claims(json.dumps(_claims(**changes)).encode())


def test_well_formed_claims_are_read_as_they_stand() -> None:
    assert _read().model_dump() == _claims()
    assert _read(aud="lane:L", payload={}).aud == "lane:L"


@pytest.mark.parametrize("name", sorted(_claims()))
def test_a_missing_claim_is_refused(name: str) -> None:
    data = _claims()
    del data[name]
    with pytest.raises(EnvelopeRefused):
        read_job_claims(json.dumps(data).encode())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("iss", ""),
        ("iss", 1),
        ("iss", "a/b"),
        ("iss", None),
        ("aud", "A"),
        ("aud", "host:"),
        ("aud", "host:a/b"),
        ("aud", "user:A"),
        ("aud", ["host:A"]),
        ("aud", "host:A:B"),
        ("aud", "HOST:A"),
        ("lane", ""),
        ("lane", "a b"),
        ("lane", "a\n"),
        ("kind", ""),
        ("kind", "run agent"),
        ("kind", None),
        ("jti", "short"),
        ("jti", "../../../../../etc"),
        ("jti", "0123456789ABCDEF"),
        ("jti", 1),
        ("iat", "1"),
        ("iat", True),
        ("iat", None),
        ("exp", 1.5),
        ("exp", 2**53),
        ("exp", False),
        ("payload", None),
        ("payload", "x"),
        ("payload", []),
        ("callback", "os.system"),
    ],
)
def test_a_malformed_or_unknown_claim_is_refused(name: str, value: object) -> None:
    with pytest.raises(EnvelopeRefused) as caught:
        _read(**{name: value})
    assert caught.value.code == "malformed"


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"iss":"a","iss":"b"}'])
def test_verified_bytes_that_are_no_strict_object_are_refused(data: bytes) -> None:
    with pytest.raises(EnvelopeRefused) as caught:
        read_job_claims(data)
    assert caught.value.code == "malformed"


def _check(now: float = NOW, **changes: Any) -> None:
    check_job_claims(_read(**changes), audiences=OURS, now=now)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"aud": "host:B"}, "audience"),
        ({"aud": "host:a"}, "audience"),
        ({"aud": "lane:M", "lane": "M"}, "audience"),
        ({"aud": "lane:L", "lane": "M"}, "lane"),
        ({"iat": NOW + limits.SKEW_S + 1, "exp": NOW + DAY}, "not_yet_valid"),
        ({"iat": NOW - DAY, "exp": NOW - limits.SKEW_S}, "expired"),
        ({"exp": NOW}, "lifetime"),
        ({"exp": NOW - 1}, "lifetime"),
        ({"exp": NOW + limits.JOB_TTL_MAX_S + 1}, "lifetime"),
        ({"iat": -(2**53) + 1}, "lifetime"),
    ],
)
def test_a_job_for_others_or_for_another_time_is_refused(
    changes: dict[str, Any], code: str
) -> None:
    with pytest.raises(EnvelopeRefused) as caught:
        _check(**changes)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"aud": "lane:L"},
        {"lane": "M"},
        {"iat": NOW + limits.SKEW_S},
        {"iat": NOW - DAY, "exp": NOW - limits.SKEW_S + 1},
        {"exp": NOW + limits.JOB_TTL_MAX_S},
        {"exp": NOW + 1},
    ],
)
def test_a_job_for_us_and_for_now_passes(changes: dict[str, Any]) -> None:
    _check(**changes)


@given(skew=st.integers(-limits.SKEW_S, limits.SKEW_S), ttl=st.integers(1, limits.JOB_TTL_MAX_S))
def test_a_skewed_clock_never_doubles_a_jobs_life(skew: int, ttl: int) -> None:
    claims = _read(iat=NOW + skew, exp=NOW + skew + ttl)
    with pytest.raises(EnvelopeRefused):
        check_job_claims(claims, audiences=OURS, now=NOW + ttl + 2 * limits.SKEW_S)
