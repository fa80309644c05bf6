"""Generations of keys: two algorithms, double signing, retirement, revocation; real files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contracts.clock import ManualClock
from contracts.envelope import HELD_TYPE, JOB_TYPE, RESULT_TYPE, open_envelope, seal
from contracts.errors import CouldNotCheck, EnvelopeRefused, KeysRefused, Refused
from dispatch.holdings import held_statements, note_held
from dispatch.key_records import Grant, GrantedKey, dump_record, read_record, record_name
from dispatch.key_store import accept_grant, create_sender, new_master, record_grant
from dispatch.keyring import HostKeyring, SenderKeyring
from dispatch.private_files import write_private_file
from dispatch.revocations import Revocation, revoke
from dispatch.rotating import Rotated, rotate

DAY = 86_400


class Fleet:
    """Alice and her hosts PC1 (lane A) and PC2 (lanes A and B), in folders of their own."""

    def __init__(self, folder: Path, algorithm: str = "HS256", name: str = "alice") -> None:
        self.clock, self.folder, self.name = ManualClock(), folder, name
        create_sender(folder / name, name, self.clock, algorithm=algorithm)
        self.sender = SenderKeyring.load(folder / name, name, self.clock)
        for host, lanes in (("PC1", ["A"]), ("PC2", ["A", "B"])):
            grant = self.sender.create_grant(host, lanes)
            record_grant(folder / name, grant)
            self.accept(grant)
        self.tick()
        self.hosts = {
            host: HostKeyring.load(folder / host, host, self.clock) for host in ("PC1", "PC2")
        }

    def accept(self, grant: Grant) -> None:
        folder = self.folder / grant.host
        accept_grant(folder, dump_record(grant), grant.host, file="f", clock=self.clock)

    def tick(self) -> None:
        """Let what runs look at its folder again."""
        self.clock.advance(1)

    def rotate(self, algorithm: str | None = None) -> Rotated:
        made = rotate(
            self.sender,
            algorithm=algorithm,
            out=self.folder / f"out{len(self.sender.masters)}",
            days=3_650,
            grant_days=365,
            own_host="ALICES",
            clock=self.clock,
        )
        self.tick()
        return made

    def take(self, made: Rotated, host: str) -> None:
        """Carry the grant of `host` over, as its file stands there."""
        file = next(Path(name) for grant, name in made.grants if grant.host == host)
        folder = self.folder / host
        accept_grant(folder, file.read_bytes(), host, file=str(file), clock=self.clock)
        self.tick()

    def beat(self, host: str) -> None:
        """Let the sender see what `host` says of itself."""
        note_held(self.sender, [(host, text) for text in held_statements(self.hosts[host])])
        self.tick()

    def kids(self, aud: str) -> list[str]:
        return [signer.kid for signer in self.sender.job_signers(aud)]

    def opens(self, host: str, text: str) -> str:
        """Return the id of the key under which `host` accepts the job, "" when it does not."""
        try:
            return open_envelope(text, self.hosts[host], JOB_TYPE).kid
        except EnvelopeRefused:
            return ""


@pytest.fixture(params=["HS256", "Ed25519"])
def fleet(tmp_path: Path, request: pytest.FixtureRequest) -> Fleet:
    return Fleet(tmp_path, request.param)


def test_both_generations_sign_until_each_host_holds_the_new_one(fleet: Fleet) -> None:
    made = fleet.rotate()
    assert sorted(grant.host for grant, _ in made.grants) == ["PC1", "PC2"]
    both = ["alice/2/job/lane:A", "alice/1/job/lane:A"]
    assert fleet.kids("lane:A") == both
    assert fleet.opens("PC1", seal(b"{}", JOB_TYPE, fleet.sender.job_signers("lane:A"))) == both[1]

    fleet.take(made, "PC1")
    text = seal(b"{}", JOB_TYPE, fleet.sender.job_signers("lane:A"))
    assert (fleet.opens("PC1", text), fleet.opens("PC2", text)) == (both[0], both[1])
    assert fleet.kids("host:PC1") == ["alice/2/job/host:PC1", "alice/1/job/host:PC1"], (
        "not seen yet"
    )

    fleet.beat("PC1")
    assert fleet.kids("host:PC1") == ["alice/2/job/host:PC1"]
    assert fleet.kids("lane:A") == both, "PC2 serves that lane, and may not hold it"
    fleet.take(made, "PC2")
    fleet.beat("PC2")
    assert fleet.kids("lane:A") == both[:1]
    assert fleet.kids("host:PC2") == ["alice/2/job/host:PC2"]


def test_results_of_both_generations_are_believed_meanwhile(fleet: Fleet) -> None:
    made = fleet.rotate()
    fleet.take(made, "PC1")
    for generation in (1, 2):
        job_kid = f"alice/{generation}/job/host:PC1"
        signer = fleet.hosts["PC1"].result_signer("alice", job_kid=job_kid)
        text = seal(b"{}", RESULT_TYPE, [signer])
        assert open_envelope(text, fleet.sender, RESULT_TYPE).kid == signer.kid


def test_the_old_generation_ends_on_a_host_when_no_job_of_it_can_live_any_more(
    fleet: Fleet,
) -> None:
    old = seal(b"{}", JOB_TYPE, fleet.sender.job_signers("host:PC1"))
    fleet.take(fleet.rotate(), "PC1")
    fleet.clock.advance(6 * DAY)
    assert fleet.opens("PC1", old), "it may have waited in the queue"
    fleet.clock.advance(2 * DAY)
    assert not fleet.opens("PC1", old)


def test_nobody_but_the_host_says_what_it_holds(fleet: Fleet) -> None:
    made = fleet.rotate()
    fleet.take(made, "PC1")
    honest = held_statements(fleet.hosts["PC1"])
    other = held_statements(fleet.hosts["PC2"])
    claims = {"iss": "PC2", "aud": "alice", "generation": 2, "grantedAt": 9_999_999_999}
    signer = fleet.hosts["PC1"].host_signer("held", "alice")
    forged = seal(json.dumps(claims).encode(), HELD_TYPE, [signer])
    strange = seal(b"[]", HELD_TYPE, [signer])
    for host, text in [("PC2", text) for text in (*honest, *other, forged, strange, "", "{}")]:
        note_held(fleet.sender, [(host, text)])
        fleet.tick()
    assert len(fleet.kids("host:PC2")) == 2
    fleet.beat("PC1")
    assert len(fleet.kids("host:PC1")) == 1, "the control: its own word counts"


def test_a_statement_about_an_earlier_grant_says_nothing_about_a_later_one(fleet: Fleet) -> None:
    made = fleet.rotate()
    fleet.take(made, "PC1")
    earlier = held_statements(fleet.hosts["PC1"])
    record_grant(fleet.folder / "alice", fleet.sender.create_grant("PC1", ["A", "C"]))
    fleet.tick()
    note_held(fleet.sender, [("PC1", text) for text in earlier])
    fleet.tick()
    assert len(fleet.kids("host:PC1")) == 2


def test_a_host_that_is_silent_for_ever_is_revoked_and_not_waited_for(fleet: Fleet) -> None:
    for _ in range(2):
        fleet.take(fleet.rotate(), "PC1")
        fleet.beat("PC1")
    assert len(fleet.kids("lane:A")) == 3
    fleet.rotate()
    assert len(fleet.kids("lane:A")) == 4
    with pytest.raises(Refused, match="hosts PC1, PC2 do not hold") as refused:
        fleet.rotate()
    assert refused.value.code == "unfinished"
    revoke(fleet.folder / "alice", Revocation(host="PC2", sender="alice"))
    fleet.tick()
    assert fleet.sender.lanes_of("PC2") is None
    assert len(fleet.kids("lane:A")) == 2
    assert [grant.host for grant, _ in fleet.rotate().grants] == ["PC1"]


def test_hosts_of_a_revoked_generation_get_the_next_one(fleet: Fleet) -> None:
    revoke(fleet.folder / "alice", Revocation(generation=1, sender="alice"))
    fleet.tick()
    assert fleet.sender.lanes_of("PC1") is None
    with pytest.raises(KeysRefused, match="keys rotate"):
        fleet.sender.job_signers("host:PC1")
    with pytest.raises(KeysRefused, match="keys rotate"):
        fleet.sender.create_grant("PC3", ["A"])
    revoke(fleet.folder / "alice", Revocation(host="PC2", sender="alice"))
    fleet.tick()
    made = fleet.rotate()
    assert [grant.host for grant, _ in made.grants] == ["PC1"]
    fleet.take(made, "PC1")
    assert fleet.sender.hosts_of("A") == ("PC1",)
    text = seal(b"{}", JOB_TYPE, fleet.sender.job_signers("host:PC1"))
    assert fleet.opens("PC1", text) == "alice/2/job/host:PC1"


def test_a_host_without_a_grant_of_a_living_generation_is_sent_nothing(fleet: Fleet) -> None:
    made = fleet.rotate()
    fleet.take(made, "PC1")
    for number in (1, 2):
        revoke(fleet.folder / "alice", Revocation(generation=number, sender="alice"))
    master = new_master("alice", 3, algorithm="HS256", days=1, now=fleet.clock.wall())
    write_private_file(
        fleet.folder / "alice" / record_name(master), dump_record(master), replace=False
    )
    fleet.tick()
    assert fleet.sender.hosts_of("A") == ()
    assert fleet.sender.lanes_of("PC1") is None


def test_a_revoked_host_is_granted_nothing(fleet: Fleet) -> None:
    revoke(fleet.folder / "alice", Revocation(host="PC2", sender="alice"))
    fleet.tick()
    with pytest.raises(KeysRefused, match="PC2 is revoked") as refused:
        fleet.sender.create_grant("PC2", ["A"])
    assert refused.value.code == "revoked"


def test_a_file_that_is_in_the_way_stops_a_rotation_before_it_begins(fleet: Fleet) -> None:
    (fleet.folder / "out1").mkdir(mode=0o700)
    (fleet.folder / "out1" / "PC2.grant.json").write_text("mine")
    with pytest.raises(Refused, match=r"PC2\.grant\.json exists"):
        fleet.rotate()
    assert len(fleet.sender.masters) == 1
    assert fleet.kids("host:PC2") == ["alice/1/job/host:PC2"]


def test_of_two_rotations_at_once_one_says_that_the_other_was_first(fleet: Fleet) -> None:
    stale = SenderKeyring.load(fleet.sender.keys_dir, "alice", ManualClock())
    assert len(stale.masters) == 1
    first = fleet.rotate()
    with pytest.raises(Refused, match="another rotation made generation 2") as refused:
        rotate(
            stale,
            algorithm=None,
            out=fleet.folder / "elsewhere",
            days=3_650,
            grant_days=365,
            own_host="ALICES",
            clock=fleet.clock,
        )
    assert refused.value.code == "exists"
    assert fleet.sender.masters[-1] == first.master


def test_a_new_generation_may_be_of_another_algorithm(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, "HS256")
    made = fleet.rotate("Ed25519")
    fleet.take(made, "PC1")
    text = seal(b"{}", JOB_TYPE, fleet.sender.job_signers("lane:A"))
    assert fleet.opens("PC1", text) == "alice/2/job/lane:A"
    assert fleet.opens("PC2", text) == "alice/1/job/lane:A"
    assert fleet.rotate().master.alg == "Ed25519", "as before"


def test_one_host_serves_senders_of_two_algorithms(tmp_path: Path) -> None:
    alice, bob = Fleet(tmp_path, "HS256"), Fleet(tmp_path, "Ed25519", name="bob")
    ring = HostKeyring.load(tmp_path / "PC1", "PC1", alice.clock)
    for fleet in (alice, bob):
        text = seal(b"{}", JOB_TYPE, fleet.sender.job_signers("lane:A"))
        assert open_envelope(text, ring, JOB_TYPE).kid == f"{fleet.name}/1/job/lane:A"
        answer = seal(b"{}", RESULT_TYPE, [ring.result_signer(fleet.name)])
        assert open_envelope(answer, fleet.sender, RESULT_TYPE).payload == b"{}"
    assert len(held_statements(ring)) == 2


# -- revocation ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("revocation", "gone"),
    [
        (Revocation(kid="alice/1/job/lane:A"), ["lane:A"]),
        (Revocation(sender="alice"), ["lane:A", "host:PC1"]),
        (Revocation(sender="alice", generation=1), ["lane:A", "host:PC1"]),
        (Revocation(host="PC1"), ["host:PC1"]),
        (Revocation(host="PC2"), []),
        (Revocation(sender="bob"), []),
        (Revocation(sender="alice", generation=2), []),
    ],
)
def test_a_ring_in_use_notices_a_revocation(
    fleet: Fleet, revocation: Revocation, gone: list[str]
) -> None:
    texts = {
        aud: seal(b"{}", JOB_TYPE, fleet.sender.job_signers(aud)) for aud in ("lane:A", "host:PC1")
    }
    assert all(fleet.opens("PC1", text) for text in texts.values())
    assert revoke(fleet.folder / "PC1", revocation)
    assert not revoke(fleet.folder / "PC1", revocation), "it was written down already"
    fleet.clock.advance(0.5)
    assert [aud for aud, text in texts.items() if not fleet.opens("PC1", text)] == gone


def test_a_ring_in_use_takes_a_new_grant_in(fleet: Fleet) -> None:
    text = seal(b"{}", JOB_TYPE, fleet.sender.job_signers("lane:C"))
    assert not fleet.opens("PC1", text)
    fleet.accept(fleet.sender.create_grant("PC1", ["A", "C"]))
    fleet.clock.advance(0.5)
    assert fleet.opens("PC1", text)


def test_a_folder_that_cannot_be_read_is_neither_a_yes_nor_a_no(fleet: Fleet) -> None:
    path = fleet.folder / "PC1" / "revoked.json"
    text = seal(b"{}", JOB_TYPE, fleet.sender.job_signers("lane:A"))
    path.write_text("{half of it")
    path.chmod(0o600)
    fleet.tick()
    for _ in range(2):
        with pytest.raises(CouldNotCheck, match=r"revoked\.json"):
            open_envelope(text, fleet.hosts["PC1"], JOB_TYPE)
        fleet.tick()
    assert held_statements(fleet.hosts["PC1"]) == []
    path.write_text('{"kids":[]}')
    fleet.tick()
    assert fleet.opens("PC1", text)
    path.chmod(0o640)
    fleet.tick()
    with pytest.raises(CouldNotCheck, match="chmod 600"):
        open_envelope(text, fleet.hosts["PC1"], JOB_TYPE)


@pytest.mark.parametrize(
    "text", ["{}", "[]", '{"record":"revoked"}', '{"kid":1}', '{"kid":"x","y":1}']
)
def test_a_revocation_that_says_nothing_clear_stops_the_ring(fleet: Fleet, text: str) -> None:
    path = fleet.folder / "alice" / "revoked.0.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(KeysRefused, match=r"revoked\.0\.json"):
        SenderKeyring.load(fleet.folder / "alice", "alice", fleet.clock)


# -- one algorithm per key ----------------------------------------------------------------------


def _with_keys(grant: Grant, keys: list[GrantedKey]) -> bytes:
    return dump_record(grant.model_copy(update={"keys": tuple(keys)}))


def test_no_record_mixes_algorithms_or_holds_a_half_too_much(tmp_path: Path) -> None:
    """An HMAC id with an Ed25519 record and the reverse; a host with the private half of a job."""
    hmac_grant = Fleet(tmp_path / "h", "HS256").sender.create_grant("PC1", ["A"])
    pair_grant = Fleet(tmp_path / "e", "Ed25519").sender.create_grant("PC1", ["A"])
    assert all(key.secret is None for key in pair_grant.keys if "/job/" in key.kid)
    assert all(key.public is None for key in pair_grant.keys if "/result/" in key.kid)
    for one, other in ((hmac_grant, pair_grant), (pair_grant, hmac_grant)):
        assert read_record(dump_record(one), Grant, "f") == one
        keys = [other.keys[0], *one.keys[1:]]
        with pytest.raises(KeysRefused, match="two algorithms"):
            read_record(_with_keys(one, keys), Grant, "f")
    for grant in (hmac_grant, pair_grant):
        for change in (
            lambda key: {"secret": key.secret or key.public, "public": key.secret or key.public},
            lambda key: {"secret": key.public, "public": key.secret},
        ):
            keys = [key.model_copy(update=change(key)) for key in grant.keys]
            with pytest.raises(KeysRefused, match="a half of a key"):
                read_record(_with_keys(grant, keys), Grant, "f")
    renamed = [key.model_copy(update={"alg": "HS256"}) for key in pair_grant.keys]
    with pytest.raises(KeysRefused, match="a half of a key"):
        read_record(_with_keys(pair_grant, renamed), Grant, "f")


def test_a_key_id_is_never_of_two_algorithms(tmp_path: Path) -> None:
    """The same id from a stranger with another algorithm, and two masters of one generation."""
    fleet = Fleet(tmp_path / "h", "HS256")
    stranger = Fleet(tmp_path / "e", "Ed25519")
    grant = dump_record(stranger.sender.create_grant("PC1", ["A"]))
    with pytest.raises(KeysRefused, match="another sender called alice"):
        accept_grant(fleet.folder / "PC1", grant, "PC1", file="f", clock=fleet.clock)
    other = next((stranger.folder / "alice").glob("master.*.json"))
    beside = fleet.folder / "alice" / "master.alice.1.again.json"
    beside.write_bytes(other.read_bytes())
    beside.chmod(0o600)
    with pytest.raises(KeysRefused, match="two masters of one generation"):
        SenderKeyring.load(fleet.folder / "alice", "alice", fleet.clock)
    again = fleet.folder / "PC1" / "grant.alice.again.json"
    again.write_bytes(grant)
    again.chmod(0o600)
    with pytest.raises(KeysRefused, match="hold the key alice/1/job/host:PC1"):
        HostKeyring.load(fleet.folder / "PC1", "PC1", fleet.clock)
