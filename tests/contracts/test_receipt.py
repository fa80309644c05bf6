"""A sender's own end of a job, as it is on the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest

from contracts.errors import EnvelopeRefused
from contracts.receipt import ReceiptClaims, ReceiptCode, read_receipt_claims

CLAIMS: dict[str, Any] = {
    "iss": "alice",
    "aud": "host:PC1",
    "jti": "a" * 20,
    "iat": 1_700_000_000,
    "jobSha256": "0" * 64,
    "code": "abandoned",
}


def test_a_receipt_reads_back_as_written_and_keeps_what_it_does_not_know() -> None:
    claims = read_receipt_claims(json.dumps({**CLAIMS, "newField": 1}).encode())
    assert claims.code is ReceiptCode.ABANDONED
    assert claims.model_extra == {"newField": 1}
    again = ReceiptClaims.model_validate_json(claims.model_dump_json())
    assert again == claims


def test_there_are_three_reasons_for_a_receipt() -> None:
    assert [code.value for code in ReceiptCode] == ["abandoned", "expired", "cancelled"]


@pytest.mark.parametrize(
    "changes", [{"code": "bored"}, {"code": None}, {"iat": "1"}, {"iat": True}, {"iss": 1}]
)
def test_what_is_no_receipt_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(EnvelopeRefused) as refused:
        read_receipt_claims(json.dumps(CLAIMS | changes).encode())
    assert refused.value.code == "malformed"


@pytest.mark.parametrize("data", [b"", b"[]", b'{"iss":"a","iss":"b"}', b"\xff"])
def test_what_is_no_strict_json_is_refused(data: bytes) -> None:
    with pytest.raises(EnvelopeRefused):
        read_receipt_claims(data)


@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_every_claim_of_a_receipt_is_needed(name: str) -> None:
    with pytest.raises(EnvelopeRefused):
        read_receipt_claims(json.dumps({k: v for k, v in CLAIMS.items() if k != name}).encode())
