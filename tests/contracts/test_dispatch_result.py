"""The outer result: kept whole by readers, whatever a newer host adds."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from contracts.dispatch_result import DispatchResult, ResultClaims
from tests.support.samples import SEED_RESULT


def _result(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "jobId": "0123456789abcdef0123",
        "kind": "run_agent",
        "target": "A",
        "ok": True,
        "exitCode": 0,
        "stdoutTail": SEED_RESULT,
    }
    return {**base, **changes}


def _claims(**changes: Any) -> dict[str, Any]:
    base = {"iss": "A", "aud": "alice", "jti": "0" * 20, "iat": 1, "jobSha256": "0" * 64}
    return {**base, "payload": _result(), **changes}


def test_the_inner_result_travels_verbatim() -> None:
    assert DispatchResult.model_validate(_result()).stdoutTail == SEED_RESULT


def test_a_reader_keeps_what_a_newer_host_wrote() -> None:
    claims = ResultClaims.model_validate(_claims(epoch=2, payload=_result(region="eu")))
    dumped = claims.model_dump(mode="json")
    assert dumped["epoch"] == 2
    assert dumped["payload"]["region"] == "eu"


@pytest.mark.parametrize(
    ("name", "value"), [("ok", 1), ("ok", "true"), ("exitCode", "0"), ("stdoutTail", None)]
)
def test_a_field_of_another_type_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValidationError):
        DispatchResult.model_validate(_result(**{name: value}))


@pytest.mark.parametrize("name", sorted(_claims()))
def test_a_result_without_one_of_its_claims_is_refused(name: str) -> None:
    data = _claims()
    del data[name]
    with pytest.raises(ValidationError):
        ResultClaims.model_validate(data)
