"""What a sender signs with and checks its hosts' answers with: its masters and its grants.

Answers from memory and follows its folder: what is granted, revoked or rotated while a program runs
counts within a second. With several generations it signs with each that a host may still need.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from contracts import limits
from contracts.clock import Clock
from contracts.envelope import Signer, Verifier
from contracts.errors import KeysRefused
from contracts.naming import host_audience
from dispatch import keys
from dispatch.grants import derive_grant
from dispatch.key_folder import KeyFolder
from dispatch.key_reading import KeyReading
from dispatch.key_records import RESULT_GRACE_S, Grant, Granted, Master
from dispatch.key_store import read_records, write_note
from dispatch.keys import BY_HOST, JOB, RECEIPT, RESULT, KeyId, parse_key_id
from dispatch.lookups import PurposeKeys
from dispatch.private_files import check_private_folder
from dispatch.revocations import Revocations, read_revocations
from dispatch.rotation import generations_to_sign

_ROTATE_REMEDY: Final = "fleet-dispatch keys rotate"


class SenderKeyring:
    """What a sender signs jobs and checks results with."""

    def __init__(self, name: str, keys_dir: Path, clock: Clock) -> None:
        self.name = name
        self._clock = clock
        self._folder: KeyFolder[KeyReading] = KeyFolder(keys_dir, self._read, clock)

    @classmethod
    def load(cls, keys_dir: Path, name: str, clock: Clock) -> SenderKeyring:
        """Return the ring of sender `name`. Raises KeysRefused when there is no such identity here
        or a file is not ours alone; so does each later call while that is so."""
        return cls(name, keys_dir, clock)

    def _read(self, keys_dir: Path) -> KeyReading:
        check_private_folder(keys_dir)
        masters = [item for item in read_records(keys_dir, Master) if item.iss == self.name]
        if not masters:
            raise KeysRefused(
                f"there is no sender {self.name} on this machine",
                code="missing",
                remedy="fleet-dispatch init, or name another one in config.toml: [sender] name",
            )
        held = {master.generation: master for master in masters}
        if len(held) != len(masters):
            raise KeysRefused(
                f"two masters of one generation of {self.name} are in {keys_dir}",
                code="malformed",
                remedy="keep the one that was granted from",
            )
        grants = [item for item in read_records(keys_dir, Granted) if item.iss == self.name]
        return KeyReading(held, tuple(grants), read_revocations(keys_dir))

    @property
    def keys_dir(self) -> Path:
        """Return the folder that it follows."""
        return self._folder.path

    def look_again(self) -> None:
        """Take in at the next call what was just written to the folder."""
        self._folder.look_again()

    def note_held(self, note: Granted) -> None:
        """Note that the host of `note` was seen, now, to hold those keys. Raises Unavailable."""
        write_note(self.keys_dir, note.model_copy(update={"heldAt": int(self._clock.wall())}))
        self.look_again()

    @property
    def masters(self) -> tuple[Master, ...]:
        """Return every generation, oldest first."""
        held = self._folder.value()
        return tuple(held.masters[number] for number in sorted(held.masters))

    @property
    def grants(self) -> tuple[Granted, ...]:
        """Return what was granted to hosts, expired ones included."""
        return self._folder.value().grants

    @property
    def living_grants(self) -> tuple[Granted, ...]:
        """Return the grants to hosts that are not revoked."""
        return self._folder.value().living_grants

    @property
    def revoked(self) -> Revocations:
        """Return what is revoked here."""
        return self._folder.value().revoked

    def is_host_revoked(self, host: str) -> bool:
        """Say whether `host` is revoked for good: a next generation of ours would not count for it
        either. That a generation is revoked says nothing about its hosts."""
        following = self.masters[-1].generation + 1
        return self.revoked.covers(KeyId(self.name, following, RESULT, host_audience(host)))

    def lanes_of(self, host: str) -> frozenset[str] | None:
        """Return the lanes that `host` holds keys for now, revoked ones aside; None when it holds
        none of ours."""
        now = self._clock.wall()
        held = [i.lanes for i in self.living_grants if i.host == host and i.is_valid_at(now)]
        return frozenset().union(*held) if held else None

    def lanes_ever_of(self, host: str) -> frozenset[str]:
        """Return the lanes that `host` was granted, expired ones too: its late results count."""
        return frozenset(lane for item in self.grants if item.host == host for lane in item.lanes)

    def hosts_of(self, lane: str) -> tuple[str, ...]:
        """Return the hosts that hold a key for `lane` now."""
        return tuple(sorted({item.host for item in self._granting(lane)}))

    def is_granted(self, lane: str) -> bool:
        """Say whether any host holds a key for `lane` now."""
        return any(self._granting(lane))

    def _granting(self, lane: str) -> Iterator[Granted]:
        now = self._clock.wall()
        return (i for i in self.living_grants if lane in i.lanes and i.is_valid_at(now))

    def signers(self, purpose: str, aud: str) -> tuple[Signer, ...]:
        """Return what signs `job`, `cancel`, `ask` or `receipt` for `aud`, newest generation first:
        more than one while a host that it is for may not hold the newest yet. Raises KeysRefused
        when no generation can be used."""
        held, now = self._folder.value(), self._clock.wall()
        usable = [
            number
            for number, master in held.masters.items()
            if master.is_valid_at(now)
            and not held.revoked.covers(KeyId(self.name, number, purpose, aud))
        ]
        if not usable:
            raise KeysRefused(
                f"no key of {self.name} is valid for {aud}", code="expired", remedy=_ROTATE_REMEDY
            )
        wanted = generations_to_sign(usable, held.living_grants, aud, now=now)
        return tuple(
            held.signer(KeyId(self.name, number, purpose, aud))
            for number in (wanted[:1] if purpose == RECEIPT else wanted)[: limits.SIGNATURES_MAX]
        )

    def job_signers(self, aud: str) -> tuple[Signer, ...]:
        """Return what signs a job for `aud`; see `signers`."""
        return self.signers(JOB, aud)

    def receipt_signers(self, aud: str) -> tuple[Signer, ...]:
        """Return what signs our own end of a job for `aud`; see `signers`."""
        return self.signers(RECEIPT, aud)

    def host_verifier(self, purpose: str, kid: str) -> Verifier | None:
        """Return the key behind what a host signed: a `result`, `event`, `delivery` or `held`.

        None unless we granted that host one.
        """
        key_id = parse_key_id(kid)
        if key_id is None or purpose not in BY_HOST or key_id.aud_kind != "host":
            return None
        held, now = self._folder.value(), self._clock.wall()
        if (key_id.iss, key_id.purpose) != (self.name, purpose) or held.revoked.covers(key_id):
            return None
        for grant in held.grants:
            if (grant.host, grant.generation) == (key_id.aud_name, key_id.generation):
                usable = grant.is_valid_at(now, grace_s=RESULT_GRACE_S)
                known = key_id.generation in held.masters
                return held.verifier(key_id) if usable and known else None
        return None

    def host_keys(self, purpose: str) -> PurposeKeys:
        """Return the ring as `open_envelope` asks it for what hosts sign; see `host_verifier`."""
        return PurposeKeys(purpose, self.host_verifier)

    def verifier(self, kid: str) -> Verifier | None:
        """Return the key behind a host's result; see `host_verifier`."""
        return self.host_verifier(RESULT, kid)

    def receipt_verifier(self, kid: str) -> Verifier | None:
        """Return the key behind a receipt of our own, None when that id is none of ours."""
        key_id = parse_key_id(kid)
        held = self._folder.value()
        if key_id is None or (key_id.iss, key_id.purpose) != (self.name, RECEIPT):
            return None
        known = key_id.generation in held.masters and not held.revoked.covers(key_id)
        return held.verifier(key_id) if known else None

    def create_grant(
        self, host: str, lanes: Sequence[str], *, days: int = keys.GRANT_DAYS
    ) -> Grant:
        """Return a grant of the newest generation for `host` and `lanes`; writes nothing.

        Raises InvalidRequest for a malformed or repeated name, and KeysRefused (`revoked`) for a
        host, or a newest generation, that is revoked.
        """
        newest = self.masters[-1]
        if self.is_host_revoked(host):
            raise KeysRefused(
                f"host {host} is revoked",
                code="revoked",
                remedy="that is for ever: call the machine something else ([host] name there)",
            )
        if self.revoked.covers(KeyId(self.name, newest.generation, RESULT, host_audience(host))):
            raise KeysRefused(
                f"generation {newest.generation} of {self.name} is revoked",
                code="revoked",
                remedy=_ROTATE_REMEDY,
            )
        return derive_grant(newest, host, lanes, days=days, now=self._clock.wall())
