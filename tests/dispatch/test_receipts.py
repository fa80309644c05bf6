"""A sender ends a job of its own under its own key, and nobody else can."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from contracts.clock import ManualClock
from contracts.envelope import RECEIPT_TYPE, open_envelope, seal
from contracts.errors import EnvelopeRefused
from contracts.receipt import ReceiptCode
from contracts.run_agent import Status
from dispatch.key_records import dump_record
from dispatch.key_store import accept_grant
from dispatch.keyring import HostKeyring, SenderKeyring
from dispatch.keys import RECEIPT
from dispatch.receipts import first_receipt, open_receipt, receipt_result, sign_receipt
from dispatch.sent import SentJob
from tests.dispatch.desk import sender_with_grants

NOW = 1_700_000_000.0
JOB = SentJob(
    job_id="a" * 20,
    aud="host:PC1",
    lane="A",
    kind="run_agent",
    queue_name="fd.lane.A@PC1",
    sha256="0" * 64,
    iat=int(NOW),
    exp=int(NOW) + 60,
    agent="codex",
    ticket="T-1",
    repo="/r",
    mode="plan",
    envelope="",
)


@pytest.fixture
def ring(tmp_path: Path) -> SenderKeyring:
    return sender_with_grants(("PC1", ("A",)), clock=ManualClock(NOW), folder=tmp_path / "alice")


@pytest.mark.parametrize("code", list(ReceiptCode))
@pytest.mark.parametrize("aud", ["host:PC1", "lane:A"])
def test_a_receipt_holds_for_its_job_and_says_when_and_why(
    code: ReceiptCode, aud: str, ring: SenderKeyring
) -> None:
    job = replace(JOB, aud=aud)
    receipt = open_receipt(sign_receipt(ring, job, code, now=NOW + 5), ring, job)
    assert (receipt.code, receipt.at) == (code, int(NOW) + 5)
    assert receipt.note == f"{code.value} at 2023-11-14T22:13:25Z"
    assert receipt.envelope not in repr(receipt)


@pytest.mark.parametrize(
    "other",
    [
        replace(JOB, job_id="b" * 20),
        replace(JOB, sha256="1" * 64),
        replace(JOB, aud="host:PC2"),
        replace(JOB, aud="lane:A"),
    ],
)
def test_a_receipt_holds_for_no_other_job(other: SentJob, ring: SenderKeyring) -> None:
    text = sign_receipt(ring, JOB, ReceiptCode.ABANDONED, now=NOW)
    with pytest.raises(EnvelopeRefused):
        open_receipt(text, ring, other)


def test_another_sender_ends_nobodys_job_but_its_own(ring: SenderKeyring, tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    for name in ("mallory", "alice"):  # a namesake has another master
        folder = tmp_path / f"other-{name}"
        other = sender_with_grants(("PC1", ("A",)), clock=clock, folder=folder, name=name)
        text = sign_receipt(other, JOB, ReceiptCode.ABANDONED, now=NOW)
        assert first_receipt([text], ring, JOB) is None


def test_a_host_holds_no_key_for_a_receipt(ring: SenderKeyring, tmp_path: Path) -> None:
    clock, keys = ManualClock(NOW), tmp_path / "PC1"
    grant = ring.create_grant("PC1", ["A"])
    accept_grant(keys, dump_record(grant), "PC1", file="grant", clock=clock)
    host = HostKeyring.load(keys, "PC1", clock)
    text = sign_receipt(ring, JOB, ReceiptCode.ABANDONED, now=NOW)
    data = open_envelope(text, _Receipts(ring), RECEIPT_TYPE).payload
    assert not any(f"/{RECEIPT}/" in key.kid for key in grant.keys)
    assert host.verifier("alice/1/receipt/host:PC1") is None
    forged = seal(data, RECEIPT_TYPE, [host.result_signer("alice")])
    with pytest.raises(EnvelopeRefused) as refused:
        open_receipt(forged, ring, JOB)
    assert refused.value.code == "unknown_key"


class _Receipts:
    def __init__(self, ring: SenderKeyring) -> None:
        self.verifier = ring.receipt_verifier


def test_a_key_that_is_revoked_or_of_another_purpose_signs_no_receipt(
    ring: SenderKeyring, tmp_path: Path
) -> None:
    assert ring.receipt_verifier("alice/1/result/host:PC1") is None
    assert ring.receipt_verifier("alice/2/receipt/host:PC1") is None
    assert ring.receipt_verifier("nonsense") is None
    assert ring.verifier("alice/1/receipt/host:PC1") is None
    text = sign_receipt(ring, JOB, ReceiptCode.ABANDONED, now=NOW)
    revoked = tmp_path / "alice" / "revoked.json"
    revoked.write_text('{"kids":["alice/1/receipt/host:PC1"]}')
    revoked.chmod(0o600)
    again = SenderKeyring.load(tmp_path / "alice", "alice", ManualClock(NOW))
    assert first_receipt([text], again, JOB) is None


def test_the_first_receipt_that_holds_is_taken_and_garbage_is_passed_over(
    ring: SenderKeyring,
) -> None:
    one = sign_receipt(ring, JOB, ReceiptCode.ABANDONED, now=NOW)
    two = sign_receipt(ring, JOB, ReceiptCode.EXPIRED, now=NOW)
    found = first_receipt(["", "garbage", one, two], ring, JOB)
    assert found is not None
    assert found.code is ReceiptCode.ABANDONED


@pytest.mark.parametrize("code", list(ReceiptCode))
def test_a_receipt_stands_for_a_failed_result_with_all_nine_keys(
    code: ReceiptCode, ring: SenderKeyring
) -> None:
    receipt = open_receipt(sign_receipt(ring, JOB, code, now=NOW), ring, JOB)
    outer, run = receipt_result(receipt, JOB)
    assert (run.status, run.agent, run.mode) == (Status.FAILED, "codex", "plan")
    assert [risk.code for risk in run.risks] == [code.value]
    assert run.known_risks == (run.risks[0].message,)
    assert run.needs_human_review is True
    assert (outer.ok, outer.exitCode, outer.jobId) == (False, 4, JOB.job_id)
    assert outer.stdoutTail == run.to_json()
