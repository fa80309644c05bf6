"""A host's word about a message, as it is on the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest

from contracts import limits
from contracts.delivery import (
    DeliveryClaims,
    DeliveryCode,
    delivery_claims,
    read_delivery_claims,
)
from contracts.errors import EnvelopeRefused

CLAIMS: dict[str, Any] = {
    "iss": "PC1",
    "aud": "alice",
    "jti": "a" * 20,
    "iat": 1_700_000_000,
    "jobSha256": "0" * 64,
    "code": "duplicate",
}


def test_a_receipt_of_a_host_reads_back_as_written_and_keeps_what_it_does_not_know() -> None:
    claims = read_delivery_claims(json.dumps({**CLAIMS, "newField": 1}).encode())
    assert claims.code is DeliveryCode.DUPLICATE
    assert (claims.state, claims.note) == ("", "")
    assert claims.model_extra == {"newField": 1}
    assert DeliveryClaims.model_validate_json(claims.model_dump_json()) == claims


def test_a_host_has_five_words_for_a_message() -> None:
    words = ["accepted", "duplicate", "refused", "unknown", "cancelling"]
    assert [code.value for code in DeliveryCode] == words


def test_a_long_note_is_cut_and_a_moment_is_whole_seconds() -> None:
    claims = delivery_claims(
        host="PC1",
        sender="alice",
        job_id="a" * 20,
        job_sha256="0" * 64,
        code=DeliveryCode.REFUSED,
        now=12.9,
        state="claimed",
        note="x" * 10_000,
    )
    assert (claims.iat, claims.state) == (12, "claimed")
    assert len(claims.note) == limits.DELIVERY_NOTE_MAX_CHARS


@pytest.mark.parametrize(
    "changes", [{"code": "bored"}, {"code": None}, {"iat": "1"}, {"iat": True}, {"note": 1}]
)
def test_what_is_no_receipt_of_a_host_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(EnvelopeRefused) as refused:
        read_delivery_claims(json.dumps(CLAIMS | changes).encode())
    assert refused.value.code == "malformed"


@pytest.mark.parametrize("data", [b"", b"[]", b'{"iss":"a","iss":"b"}', b"\xff"])
def test_what_is_no_strict_json_is_refused(data: bytes) -> None:
    with pytest.raises(EnvelopeRefused):
        read_delivery_claims(data)


@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_every_claim_is_needed(name: str) -> None:
    with pytest.raises(EnvelopeRefused):
        read_delivery_claims(json.dumps({k: v for k, v in CLAIMS.items() if k != name}).encode())
