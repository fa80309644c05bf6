"""All keys of one host are stolen: what they sign, and what they do not.

Every key of the stolen grant is used, in every way that an algorithm has, under every key id that
the other hosts and the sender accept. The control: for the robbed host itself some of it counts.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from contracts.clock import ManualClock
from contracts.envelope import VerifierLookup, open_envelope, seal
from contracts.errors import EnvelopeRefused
from dispatch.key_records import Grant, dump_record
from dispatch.key_store import accept_grant, create_sender, record_grant
from dispatch.keyring import HostKeyring, SenderKeyring
from dispatch.keys import BY_HOST, BY_SENDER, PAYLOAD_TYPES, RECEIPT


@dataclass(frozen=True)
class Forger:
    """Signs with stolen bytes, as an HMAC secret or as a private seed, under any id."""

    kid: str
    stolen: bytes
    algorithm: str

    def sign(self, message: bytes) -> bytes:
        if self.algorithm == "HS256":
            return hmac.digest(self.stolen, message, hashlib.sha256)
        return Ed25519PrivateKey.from_private_bytes(self.stolen).sign(message)


@dataclass(frozen=True)
class Robbed:
    """A fleet whose host STOLEN (lane A) was robbed; OTHER serves lanes A and B."""

    grant: Grant
    sender: SenderKeyring
    stolen: HostKeyring
    other: HostKeyring

    def forges(self, purpose: str, aud: str, reader: VerifierLookup) -> int:
        """Return how many of the stolen keys sign what `reader` accepts."""
        kid, kind, found = f"alice/1/{purpose}/{aud}", PAYLOAD_TYPES[purpose], 0
        for key in self.grant.keys:
            for algorithm in ("HS256", "Ed25519"):
                text = seal(b"{}", kind, [Forger(kid, key.key_bytes, algorithm)])
                try:
                    open_envelope(text, reader, kind)
                except EnvelopeRefused:
                    continue
                found += 1
        return found


@pytest.fixture(params=["HS256", "Ed25519"])
def algorithm(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def robbed(tmp_path: Path, algorithm: str) -> Robbed:
    clock, home = ManualClock(), tmp_path / "alice"
    create_sender(home, "alice", clock, algorithm=algorithm)
    ring = SenderKeyring.load(home, "alice", clock)
    grants = {"STOLEN": ring.create_grant("STOLEN", ["A"])}
    grants["OTHER"] = ring.create_grant("OTHER", ["A", "B"])
    for host, grant in grants.items():
        record_grant(home, grant)
        accept_grant(tmp_path / host, dump_record(grant), host, file="f", clock=clock)
    return Robbed(
        grant=grants["STOLEN"],
        sender=SenderKeyring.load(home, "alice", clock),
        stolen=HostKeyring.load(tmp_path / "STOLEN", "STOLEN", clock),
        other=HostKeyring.load(tmp_path / "OTHER", "OTHER", clock),
    )


def test_it_forges_no_job_no_cancel_and_no_ask_for_another_host_or_lane(robbed: Robbed) -> None:
    for purpose in BY_SENDER:
        for aud in ("host:OTHER", "lane:B"):
            assert robbed.forges(purpose, aud, robbed.other.message_keys(purpose)) == 0
            assert robbed.forges(purpose, aud, robbed.stolen.message_keys(purpose)) == 0


def test_it_forges_no_answer_of_another_host_and_no_receipt_of_the_sender(robbed: Robbed) -> None:
    for purpose in BY_HOST:
        assert robbed.forges(purpose, "host:OTHER", robbed.sender.host_keys(purpose)) == 0
        assert robbed.forges(purpose, "lane:A", robbed.sender.host_keys(purpose)) == 0

    class Receipts:
        verifier = staticmethod(robbed.sender.receipt_verifier)

    for aud in ("host:STOLEN", "host:OTHER", "lane:A"):
        assert robbed.forges(RECEIPT, aud, Receipts()) == 0


def test_what_it_signs_is_for_itself_and_with_pairs_not_even_a_job(
    robbed: Robbed, algorithm: str
) -> None:
    expected = 1 if algorithm == "HS256" else 0
    for purpose in BY_SENDER:
        keys = robbed.stolen.message_keys(purpose)
        assert robbed.forges(purpose, "host:STOLEN", keys) == expected
        assert robbed.forges(purpose, "lane:A", keys) == expected
        assert robbed.forges(purpose, "lane:A", robbed.other.message_keys(purpose)) == expected
    for purpose in BY_HOST:  # its own answers are what its keys are for
        assert robbed.forges(purpose, "host:STOLEN", robbed.sender.host_keys(purpose)) == 1


def test_an_answer_of_one_purpose_is_none_of_another(robbed: Robbed) -> None:
    for purpose in BY_HOST:
        for other in set(BY_HOST) - {purpose}:
            signer = robbed.stolen.host_signer(purpose, "alice")
            for kind in (PAYLOAD_TYPES[purpose], PAYLOAD_TYPES[other]):
                text = seal(b"{}", kind, [signer])
                with pytest.raises(EnvelopeRefused):
                    open_envelope(text, robbed.sender.host_keys(other), kind)
