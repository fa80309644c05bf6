"""The verbs of keys for real life: rotate, revoke, export and import, as a person types them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contracts.clock import SystemClock
from contracts.errors import KeysRefused
from dispatch.key_bundle import export_keys, import_keys
from dispatch.keyring import HostKeyring, SenderKeyring
from tests.dispatch.conftest import Said

Say = Callable[..., Said]

PASSPHRASE = "four words of mine"


@pytest.fixture
def tell(say: Say, monkeypatch: pytest.MonkeyPatch) -> Say:
    """As `say`, with a text on stdin."""

    def run(*words: str, stdin: str = "", environ: dict[str, str] | None = None) -> Said:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        return say(*words, environ=environ)

    return run


@pytest.fixture
def alice(tell: Say, tmp_path: Path) -> dict[str, str]:
    """Alice's machine is host DESK and grants to GAMING, too."""
    environ = {
        "FLEET_DISPATCH_HOME": str(tmp_path / "alice"),
        "FLEET_DISPATCH_REDIS_URL": "redis://127.0.0.1:1/0",  # nobody is there
        "USER": "alice",
        "PATH": "/usr/bin:/bin",
    }
    assert tell("init", "--host", "DESK", "--lanes", "A", environ=environ).code == 0
    out = tmp_path / "first.json"
    words = ("keys", "grant", "GAMING", "--lanes", "A,B", "--out", str(out))
    assert tell(*words, environ=environ).code == 0
    return environ


def _keys(environ: dict[str, str]) -> Path:
    return Path(environ["FLEET_DISPATCH_HOME"]) / "keys"


def test_a_rotation_writes_every_grant_and_takes_its_own_in(
    tell: Say, alice: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "grants"
    said = tell(
        "keys", "rotate", "--out", str(out), "--algorithm", "Ed25519", "--json", environ=alice
    )
    assert said.code == 0, said
    made = json.loads(said.out)
    assert (made["generation"], made["alg"]) == (2, "Ed25519")
    assert [(item["host"], item["file"]) for item in made["grants"]] == [
        ("DESK", ""),
        ("GAMING", str(out / "GAMING.grant.json")),
    ]
    assert out.stat().st_mode & 0o777 == 0o700
    assert (out / "GAMING.grant.json").stat().st_mode & 0o777 == 0o600
    ring = HostKeyring.load(_keys(alice), "DESK", SystemClock())
    assert {grant.generation for grant in ring.grants} == {1, 2}
    listed = tell("keys", "list", environ=alice).out
    assert "signs too, until GAMING holds a newer one" in listed
    assert "not seen to hold it" in listed
    again = tell("keys", "rotate", "--out", str(out), environ=alice)
    assert again.code == 2
    assert "exists" in again.err
    told = tell("init", "--host", "DESK", "--lanes", "A", "--algorithm", "HS256", environ=alice)
    assert told.code == 2
    assert "keys rotate" in told.err


def test_a_revocation_is_asked_for_one_way(tell: Say, alice: dict[str, str]) -> None:
    for words in (
        (),
        ("alice/1/job/lane:A", "--host", "GAMING"),
        ("alice/x/job/lane:A",),
        ("--host", "a b"),
    ):
        assert tell("keys", "revoke", *words, environ=alice).code == 2
    assert tell("keys", "revoke", "alice/1/job/lane:A", environ=alice).code == 0
    assert "was revoked before" in tell("keys", "revoke", "alice/1/job/lane:A", environ=alice).out
    said = tell("keys", "revoke", "--host", "GAMING", "--json", environ=alice)
    assert json.loads(said.out)["revoked"] == "host GAMING"
    assert "rotate" in json.loads(said.out)["notes"][0]
    said = tell("keys", "revoke", "--generation", "1", environ=alice)
    assert "sender alice, generation 1" in said.out
    listed = tell("keys", "list", environ=alice).out
    assert "revoked: host GAMING" in listed
    assert "revoked: alice/1/job/lane:A" in listed


def test_what_is_revoked_is_listed_as_that_and_not_as_what_signs(
    tell: Say, alice: dict[str, str], tmp_path: Path
) -> None:
    def states(kind: str) -> list[str]:
        rows = json.loads(tell("keys", "list", "--json", environ=alice).out)[kind]
        return [row["state"] for row in rows]

    out = str(tmp_path / "grants")
    assert tell("keys", "rotate", "--out", out, environ=alice).code == 0
    assert states("senders") == ["signs too, until GAMING holds a newer one", "signs"]
    assert tell("keys", "revoke", "--generation", "2", environ=alice).code == 0
    assert states("senders") == ["signs", "revoked"]
    assert sorted(states("granted")).count("revoked") == 2
    assert sorted(states("accepted")) == ["revoked", "valid"]
    assert tell("keys", "revoke", "--host", "GAMING", environ=alice).code == 0
    assert sorted(states("granted")).count("revoked") == 3


def test_keys_move_under_a_passphrase_that_stands_in_a_file_or_on_stdin(
    tell: Say, alice: dict[str, str], tmp_path: Path
) -> None:
    bundle, phrase = tmp_path / "keys.backup.json", tmp_path / "phrase"
    phrase.write_text(f"{PASSPHRASE}\nsecond line\n")
    words = ("keys", "export", "--out", str(bundle), "--passphrase-file", str(phrase))
    phrase.chmod(0o644)
    refused = tell(*words, environ=alice)
    assert (refused.code, "chmod 600" in refused.err) == (2, True)
    phrase.chmod(0o600)
    assert tell(*words, environ=alice).code == 0
    assert bundle.stat().st_mode & 0o777 == 0o600
    assert tell(*words, environ=alice).code == 2, "an export replaces nothing"
    secrets = [path.read_text() for path in _keys(alice).glob("master.*")]
    assert json.loads(secrets[0])["secret"] not in bundle.read_text()

    other = alice | {"FLEET_DISPATCH_HOME": str(tmp_path / "other")}
    words = ("keys", "import", str(bundle), "--passphrase-stdin", "--json")
    wrong = tell(*words, environ=other, stdin="another passphrase\n")
    assert (wrong.code, (tmp_path / "other" / "keys").exists()) == (2, False)
    said = tell(*words, environ=other, stdin=f"{PASSPHRASE}\n")
    assert said.code == 0, said
    assert len(json.loads(said.out)["new"]) == 4
    for path in _keys(alice).glob("*.json"):
        assert (_keys(other) / path.name).read_bytes() == path.read_bytes()
    assert json.loads(tell(*words, environ=other, stdin=f"{PASSPHRASE}\n").out)["new"] == []
    SenderKeyring.load(_keys(other), "alice", SystemClock())


def test_an_import_replaces_nothing_and_is_all_or_nothing(
    tell: Say, alice: dict[str, str], tmp_path: Path
) -> None:
    bundle = export_keys(_keys(alice), PASSPHRASE)
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    master = next(_keys(alice).glob("master.*"))
    (other / master.name).write_bytes(master.read_bytes() + b" ")
    (other / master.name).chmod(0o600)
    with pytest.raises(KeysRefused, match="says something else"):
        import_keys(other, bundle, PASSPHRASE)
    assert len(list(other.iterdir())) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"n": 2},
        {"n": 2**30},
        {"kdf": "none"},
        {"v": 2},
        {"salt": "!"},
        {"salt": "AAAAAAAAAAAAAAAAAAAAAA=="},
        {"data": "gAAAA"},
        {"record": "x"},
        {"more": 1},
    ],
)
def test_an_altered_export_is_refused(
    tell: Say, alice: dict[str, str], tmp_path: Path, change: dict[str, Any]
) -> None:
    document = json.loads(export_keys(_keys(alice), PASSPHRASE))
    data = json.dumps(document | change).encode()
    with pytest.raises(KeysRefused):
        import_keys(tmp_path / "other", data, PASSPHRASE)
    assert not (tmp_path / "other").exists()


def test_a_short_passphrase_is_refused_and_two_sources_are_one_too_many(
    tell: Say, alice: dict[str, str], tmp_path: Path
) -> None:
    words = ("keys", "export", "--out", str(tmp_path / "x"))
    for stdin in ("short\n", "", "\n"):
        said = tell(*words, "--passphrase-stdin", environ=alice, stdin=stdin)
        assert (said.code, "12 characters" in said.err) == (2, True)
    both = ("--passphrase-stdin", "--passphrase-file", "y")
    assert tell(*words, *both, environ=alice, stdin=PASSPHRASE).code == 2
    assert tell(*words, "--passphrase-file", str(tmp_path / "none"), environ=alice).code == 2
    assert tell("keys", "import", str(tmp_path / "none"), environ=alice).code == 2
