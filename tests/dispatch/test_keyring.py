from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from contracts.clock import ManualClock
from contracts.envelope import JOB_TYPE, RESULT_TYPE, open_envelope, seal
from contracts.errors import EnvelopeRefused, InvalidRequest, KeysRefused
from dispatch.key_records import Grant, dump_record, read_record
from dispatch.key_store import accept_grant, create_sender, record_grant
from dispatch.keyring import HostKeyring, SenderKeyring
from dispatch.keys import PAYLOAD_TYPES
from tests.dispatch.desk import sender_with_grants
from tests.support.unprivileged import open_folder, run_unprivileged

DAY = 86_400


class Fleet:
    """Alice, who granted PC1 lane A, and PC2 lanes A and B; each host with its own ring."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.folder = folder
        self.sender = sender_with_grants(
            ("PC1", ["A"]), ("PC2", ["A", "B"]), clock=self.clock, folder=folder / "alice"
        )
        self.hosts = {
            name: self.accept(name, lanes) for name, lanes in (("PC1", ["A"]), ("PC2", ["A", "B"]))
        }

    def accept(self, host: str, lanes: list[str], *, days: int = 365) -> HostKeyring:
        grant = self.sender.create_grant(host, lanes, days=days)
        keys = self.folder / host
        accept_grant(keys, dump_record(grant), host, file="f", clock=self.clock)
        return HostKeyring.load(keys, host, self.clock)

    def job(self, aud: str, payload: bytes = b"{}") -> str:
        return seal(payload, JOB_TYPE, self.sender.job_signers(aud))


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def test_a_host_checks_jobs_for_itself_and_its_lanes_and_for_nobody_else(fleet: Fleet) -> None:
    for aud, host, holds in [
        ("host:PC1", "PC1", True),
        ("host:PC1", "PC2", False),
        ("lane:A", "PC1", True),
        ("lane:A", "PC2", True),
        ("lane:B", "PC1", False),
        ("lane:B", "PC2", True),
    ]:
        envelope = fleet.job(aud, b'{"n":1}')
        if holds:
            opened = open_envelope(envelope, fleet.hosts[host], JOB_TYPE)
            assert (opened.payload, opened.kid) == (b'{"n":1}', f"alice/1/job/{aud}")
        else:
            with pytest.raises(EnvelopeRefused) as refused:
                open_envelope(envelope, fleet.hosts[host], JOB_TYPE)
            assert refused.value.code == "unknown_key"


def test_a_key_signs_only_the_type_of_its_purpose(fleet: Fleet) -> None:
    signer = fleet.hosts["PC1"].result_signer("alice")
    assert signer.kid == "alice/1/result/host:PC1"
    envelope = seal(b"{}", RESULT_TYPE, [signer])
    assert open_envelope(envelope, fleet.sender, RESULT_TYPE).kid == signer.kid
    with pytest.raises(EnvelopeRefused):
        open_envelope(seal(b"{}", JOB_TYPE, [signer]), fleet.sender, JOB_TYPE)
    with pytest.raises(EnvelopeRefused):
        open_envelope(seal(b"{}", JOB_TYPE, [signer]), fleet.hosts["PC1"], JOB_TYPE)


@pytest.mark.parametrize(
    "kid",
    [
        "bob/1/result/host:PC1",
        "alice/2/result/host:PC1",
        "alice/1/job/host:PC1",
        "alice/1/result/lane:A",
        "alice/1/result/host:STRANGER",
        "alice",
    ],
)
def test_a_sender_knows_only_result_keys_of_hosts_it_granted(fleet: Fleet, kid: str) -> None:
    assert fleet.sender.verifier("alice/1/result/host:PC1") is not None
    assert fleet.sender.verifier(kid) is None


def test_a_grant_ends_at_its_time_and_late_results_still_count(fleet: Fleet) -> None:
    host = fleet.accept("PC3", ["A"], days=1)
    record_grant(fleet.folder / "alice", fleet.sender.create_grant("PC3", ["A"], days=1))
    sender = SenderKeyring.load(fleet.folder / "alice", "alice", fleet.clock)
    assert host.verifier("alice/1/job/lane:A") is not None
    assert "PC3" in sender.hosts_of("A")

    fleet.clock.jump(DAY + 1)
    assert host.verifier("alice/1/job/lane:A") is None
    assert sender.lanes_of("PC3") is None
    assert "PC3" not in sender.hosts_of("A")
    assert sender.lanes_ever_of("PC3") == {"A"}
    assert host.result_signer("alice").kid == "alice/1/result/host:PC3"
    assert sender.verifier("alice/1/result/host:PC3") is not None

    fleet.clock.jump(15 * DAY)
    assert sender.verifier("alice/1/result/host:PC3") is None
    with pytest.raises(KeysRefused, match="no key to answer alice"):
        host.result_signer("alice")


def test_a_grant_is_not_valid_before_its_time(fleet: Fleet) -> None:
    fleet.clock.jump(-121)
    assert fleet.hosts["PC1"].verifier("alice/1/job/lane:A") is None
    with pytest.raises(KeysRefused, match="no key of alice is valid"):
        fleet.sender.job_signers("lane:A")


def test_a_result_is_signed_with_the_generation_of_its_job(fleet: Fleet) -> None:
    host = fleet.hosts["PC1"]
    assert host.result_signer("alice", job_kid="alice/1/job/lane:A").kid.startswith("alice/1/")
    with pytest.raises(KeysRefused):
        host.result_signer("alice", job_kid="alice/2/job/lane:A")
    with pytest.raises(KeysRefused):
        host.result_signer("bob")


def test_a_revoked_key_is_unknown_on_both_sides(fleet: Fleet) -> None:
    for folder in (fleet.folder / "alice", fleet.folder / "PC1"):
        path = folder / "revoked.json"
        kids = ["alice/1/job/lane:A", "alice/1/result/host:PC1"]
        path.write_text(json.dumps({"kids": kids}))
        path.chmod(0o600)
    sender = SenderKeyring.load(fleet.folder / "alice", "alice", fleet.clock)
    host = HostKeyring.load(fleet.folder / "PC1", "PC1", fleet.clock)
    assert host.verifier("alice/1/job/lane:A") is None
    assert host.verifier("alice/1/job/host:PC1") is not None
    assert sender.verifier("alice/1/result/host:PC1") is None
    with pytest.raises(KeysRefused):
        sender.job_signers("lane:A")
    with pytest.raises(KeysRefused):
        host.result_signer("alice")


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"kids":"x"}', '{"kids":[1]}'])
def test_a_revocation_list_that_says_nothing_clear_stops_the_ring(fleet: Fleet, text: str) -> None:
    path = fleet.folder / "PC1" / "revoked.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(KeysRefused, match=r"revoked\.json"):
        HostKeyring.load(fleet.folder / "PC1", "PC1", fleet.clock)


def test_an_identity_is_made_once(tmp_path: Path) -> None:
    clock = ManualClock()
    assert create_sender(tmp_path / "keys", "alice", clock)
    before = {path: path.read_bytes() for path in (tmp_path / "keys").iterdir()}
    assert not create_sender(tmp_path / "keys", "alice", clock)
    assert {path: path.read_bytes() for path in (tmp_path / "keys").iterdir()} == before
    assert create_sender(tmp_path / "keys", "Alice", clock)


def test_a_ring_that_is_not_there_says_which_verb_makes_it(tmp_path: Path, fleet: Fleet) -> None:
    with pytest.raises(KeysRefused, match="fleet-dispatch init") as refused:
        SenderKeyring.load(tmp_path / "none", "alice", fleet.clock)
    assert refused.value.code == "missing"
    with pytest.raises(KeysRefused, match="no sender bob"):
        SenderKeyring.load(fleet.folder / "alice", "bob", fleet.clock)
    with pytest.raises(KeysRefused, match="keys accept"):
        HostKeyring.load(fleet.folder / "PC1", "PC2", fleet.clock)


@pytest.mark.parametrize("lanes", [[], ["A", "A"], ["a b"], ["../x"]])
def test_a_grant_needs_well_formed_lanes_each_once(fleet: Fleet, lanes: list[str]) -> None:
    with pytest.raises(InvalidRequest, match="lanes"):
        fleet.sender.create_grant("PC1", lanes)


def test_a_host_takes_only_a_grant_for_itself_that_is_valid_now(fleet: Fleet) -> None:
    grant = dump_record(fleet.sender.create_grant("PC1", ["A"], days=1))
    with pytest.raises(KeysRefused, match="is for host PC1") as refused:
        accept_grant(fleet.folder / "x", grant, "PC9", file="f", clock=fleet.clock)
    assert refused.value.code == "foreign"
    fleet.clock.jump(2 * DAY)
    with pytest.raises(KeysRefused, match="not valid now"):
        accept_grant(fleet.folder / "x", grant, "PC1", file="f", clock=fleet.clock)
    assert not (fleet.folder / "x").exists()


def test_a_stranger_cannot_take_the_name_of_a_sender_that_a_host_knows(fleet: Fleet) -> None:
    stranger = sender_with_grants(clock=fleet.clock, folder=fleet.folder / "stranger")
    grant = dump_record(stranger.create_grant("PC1", ["A"]))
    with pytest.raises(KeysRefused, match="another sender called alice"):
        accept_grant(fleet.folder / "PC1", grant, "PC1", file="f", clock=fleet.clock)
    again = fleet.accept("PC1", ["A", "C"])
    assert again.audiences() == {"host:PC1", "lane:A", "lane:C"}


def test_a_host_answers_several_senders(fleet: Fleet) -> None:
    bob = sender_with_grants(clock=fleet.clock, folder=fleet.folder / "bob", name="bob")
    grant = dump_record(bob.create_grant("PC1", ["A"]))
    accept_grant(fleet.folder / "PC1", grant, "PC1", file="f", clock=fleet.clock)
    ring = HostKeyring.load(fleet.folder / "PC1", "PC1", fleet.clock)
    assert {item.iss for item in ring.grants} == {"alice", "bob"}
    assert ring.result_signer("bob").kid == "bob/1/result/host:PC1"


def _first_form(grant: Grant) -> bytes:
    """Return the file as it was written when there were jobs and results alone."""
    document = json.loads(dump_record(grant))
    ids = grant.wanted_key_ids()
    document["keys"] = [k for k in document["keys"] if ids[k["kid"]].purpose in ("job", "result")]
    return json.dumps(document).encode()


def test_a_grant_of_the_first_form_still_loads_and_says_what_to_ask_for(fleet: Fleet) -> None:
    folder = fleet.folder / "PC9"
    data = _first_form(fleet.sender.create_grant("PC9", ["A"]))
    accept_grant(folder, data, "PC9", file="f", clock=fleet.clock)
    ring = HostKeyring.load(folder, "PC9", fleet.clock)
    assert open_envelope(fleet.job("lane:A"), ring, JOB_TYPE).payload == b"{}"
    assert ring.result_signer("alice").kid == "alice/1/result/host:PC9"
    assert ring.missing_purposes() == {"alice": {"cancel", "ask", "event", "delivery", "held"}}
    assert ring.message_verifier("cancel", "alice/1/cancel/host:PC9") is None
    with pytest.raises(KeysRefused, match="ask that sender for a new grant"):
        ring.host_signer("delivery", "alice")

    new = fleet.sender.create_grant("PC9", ["A"])
    accept_grant(folder, dump_record(new), "PC9", file="f", clock=fleet.clock)
    ring = HostKeyring.load(folder, "PC9", fleet.clock)
    assert ring.missing_purposes() == {}
    assert ring.message_verifier("cancel", "alice/1/cancel/lane:A") is not None


@pytest.mark.parametrize("purpose", ["job", "cancel", "ask"])
def test_what_a_sender_signs_is_checked_by_whom_it_is_for(fleet: Fleet, purpose: str) -> None:
    kind = PAYLOAD_TYPES[purpose]
    for aud, holds in (("host:PC1", True), ("lane:A", True), ("host:PC2", False)):
        text = seal(b"{}", kind, fleet.sender.signers(purpose, aud))
        keys = fleet.hosts["PC1"].message_keys(purpose)
        if holds:
            assert open_envelope(text, keys, kind).kid == f"alice/1/{purpose}/{aud}"
        else:
            with pytest.raises(EnvelopeRefused):
                open_envelope(text, keys, kind)


@pytest.mark.parametrize("purpose", ["result", "event", "delivery", "held"])
def test_what_a_host_signs_is_checked_by_the_sender_of_its_grant(
    fleet: Fleet, purpose: str
) -> None:
    kind = PAYLOAD_TYPES[purpose]
    text = seal(b"{}", kind, [fleet.hosts["PC1"].host_signer(purpose, "alice")])
    keys = fleet.sender.host_keys(purpose)
    assert open_envelope(text, keys, kind).kid == f"alice/1/{purpose}/host:PC1"
    with pytest.raises(ValueError, match="a host signs no job"):
        fleet.hosts["PC1"].host_signer("job", "alice")
    other = "event" if purpose == "result" else "result"
    assert fleet.sender.host_verifier(other, f"alice/1/{purpose}/host:PC1") is None


def _changed(grant: Grant, **changes: Any) -> bytes:
    return json.dumps({**grant.model_dump(mode="json"), **changes}).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"v": 2},
        {"record": "master"},
        {"extra": 1},
        {"lanes": ["A", "B"]},
        {"lanes": []},
        {"host": "PC2"},
        {"host": "../PC1"},
        {"iss": "bob"},
        {"generation": 2},
        {"generation": True},
        {"keys": []},
        {"exp": "never"},
    ],
)
def test_a_grant_whose_parts_contradict_each_other_is_refused(
    fleet: Fleet, changes: dict[str, Any]
) -> None:
    grant = fleet.sender.create_grant("PC1", ["A"])
    assert read_record(_changed(grant), Grant, "f") == grant
    with pytest.raises(KeysRefused, match=r"^f "):
        read_record(_changed(grant, **changes), Grant, "f")


@pytest.mark.parametrize(
    "key", [{"alg": "none"}, {"secret": "AAAA"}, {"secret": "!"}, {"kid": "alice/1/job/lane:B"}]
)
def test_a_grant_with_a_wrong_key_is_refused_without_showing_it(
    fleet: Fleet, key: dict[str, str]
) -> None:
    grant = fleet.sender.create_grant("PC1", ["A"])
    keys = [item.model_dump() for item in grant.keys]
    keys[0] |= key
    with pytest.raises(KeysRefused) as refused:
        read_record(_changed(grant, keys=keys), Grant, "f")
    assert all(item.secret not in str(refused.value) for item in grant.keys)


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b'{"a":1,"a":2}', b"\xff"])
def test_a_key_file_that_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(KeysRefused, match="f is malformed"):
        read_record(data, Grant, "f")


def test_no_secret_is_in_a_representation(fleet: Fleet) -> None:
    grant = fleet.sender.create_grant("PC1", ["A"])
    assert all(key.secret not in repr(grant) for key in grant.keys)
    assert all(item.secret not in repr(item) for item in fleet.sender.masters)


def test_key_files_that_others_can_read_stop_both_rings(fleet: Fleet) -> None:
    for owner, load in (
        ("alice", lambda: SenderKeyring.load(fleet.folder / "alice", "alice", fleet.clock)),
        ("PC1", lambda: HostKeyring.load(fleet.folder / "PC1", "PC1", fleet.clock)),
    ):
        load()
        folder = fleet.folder / owner
        path = next(folder.glob("*.json"))
        path.chmod(0o640)
        with pytest.raises(KeysRefused, match=f"chmod 600 {path}"):
            load()
        path.chmod(0o600)
        folder.chmod(0o755)
        with pytest.raises(KeysRefused, match=f"chmod 700 {folder}"):
            load()
        folder.chmod(0o700)
        load()


_USE = """
import sys
from pathlib import Path
from contracts.clock import SystemClock
from contracts.errors import KeysRefused
from dispatch.key_store import create_sender
from dispatch.keyring import SenderKeyring
keys, clock = Path(sys.argv[1]) / "keys", SystemClock()
create_sender(keys, "alice", clock)
print("control", SenderKeyring.load(keys, "alice", clock).name)
for place, mode in ((keys, 0o750), (next(keys.glob("master.*")), 0o644)):
    before = place.stat().st_mode
    place.chmod(mode)
    try:
        SenderKeyring.load(keys, "alice", clock)
    except KeysRefused as error:
        print("refused", error.code)
    place.chmod(before & 0o7777)
try:
    SenderKeyring.load(Path(sys.argv[2]), "alice", clock)
except KeysRefused as error:
    print("foreign", error.code)
"""


def test_a_user_without_rights_holds_its_own_keys_and_reads_no_others(fleet: Fleet) -> None:
    with open_folder() as folder, open_folder() as other:
        foreign = other / "keys"
        create_sender(foreign, "alice", ManualClock())
        said = run_unprivileged(_USE, str(folder), str(foreign), home=folder).splitlines()
    assert said[:3] == ["control alice", "refused permissions", "refused permissions"]
    if os.geteuid() == 0:
        assert said[3] == "foreign permissions"
