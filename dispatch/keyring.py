"""The two keyrings: the sender's masters and grants, and the keys that a host was given.

Both rings are read once, with permissions checked, and then answer from memory as
`contracts.envelope` asks. A host's ring holds derived keys only: it can check jobs for itself and
its lanes, sign its own results, and forge nothing for another host. `revoked.json`
(`{"kids": […]}`) is honoured where it exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from contracts import limits
from contracts.clock import Clock
from contracts.envelope import Signer, Verifier
from contracts.errors import KeysRefused
from contracts.naming import host_audience, lane_audience
from dispatch.grants import derive_grant
from dispatch.key_records import RESULT_GRACE_S, Grant, Granted, Master
from dispatch.key_store import read_records, read_revoked
from dispatch.keys import JOB, RECEIPT, RESULT, Key, KeyId, build_key, derive_secret, parse_key_id
from dispatch.private_files import check_private_folder

GRANT_DAYS: Final = 365
_GRANT_REMEDY: Final = "fleet-dispatch keys grant HOST --lanes LANES"


class SenderKeyring:
    """What a sender signs jobs and checks results with."""

    def __init__(
        self,
        name: str,
        masters: Sequence[Master],
        grants: Sequence[Granted],
        *,
        revoked: frozenset[str],
        clock: Clock,
    ) -> None:
        self.name = name
        self._masters = {master.generation: master for master in masters}
        self._grants = tuple(grants)
        self._revoked = revoked
        self._clock = clock

    @classmethod
    def load(cls, keys_dir: Path, name: str, clock: Clock) -> SenderKeyring:
        """Return the ring of sender `name`.

        Raises KeysRefused when there is no such identity here or a file is not ours alone.
        """
        check_private_folder(keys_dir)
        masters = [item for item in read_records(keys_dir, Master) if item.iss == name]
        if not masters:
            raise KeysRefused(
                f"there is no sender {name} on this machine",
                code="missing",
                remedy="fleet-dispatch init, or name another one in config.toml: [sender] name",
            )
        grants = [item for item in read_records(keys_dir, Granted) if item.iss == name]
        return cls(name, masters, grants, revoked=read_revoked(keys_dir), clock=clock)

    @property
    def masters(self) -> tuple[Master, ...]:
        """Return every generation, oldest first."""
        return tuple(self._masters[number] for number in sorted(self._masters))

    @property
    def grants(self) -> tuple[Granted, ...]:
        """Return what was granted to hosts, expired ones included."""
        return self._grants

    def lanes_of(self, host: str) -> frozenset[str] | None:
        """Return the lanes that `host` holds keys for now; None when it holds none of ours."""
        now = self._clock.wall()
        held = [item for item in self._grants if item.host == host and item.is_valid_at(now)]
        return frozenset(lane for item in held for lane in item.lanes) if held else None

    def lanes_ever_of(self, host: str) -> frozenset[str]:
        """Return the lanes that `host` was granted, expired grants included: its late results
        count. The key itself has an end of its own."""
        return frozenset(lane for item in self._grants if item.host == host for lane in item.lanes)

    def hosts_of(self, lane: str) -> tuple[str, ...]:
        """Return the hosts that hold a key for `lane` now."""
        names = {item.host for item in self._grants if lane in (self.lanes_of(item.host) or ())}
        return tuple(sorted(names))

    def job_signers(self, aud: str) -> tuple[Signer, ...]:
        """Return a signer per usable generation, newest first: rotation signs twice.

        Raises KeysRefused when no generation can be used for `aud`.
        """
        return self._signers(JOB, aud)

    def receipt_signers(self, aud: str) -> tuple[Signer, ...]:
        """Return what signs our own end of a job for `aud`; see `job_signers`."""
        return self._signers(RECEIPT, aud)

    def _signers(self, purpose: str, aud: str) -> tuple[Signer, ...]:
        now = self._clock.wall()
        signers: list[Signer] = []
        for master in reversed(self.masters):
            key_id = master.key_id(purpose, aud)
            if master.is_valid_at(now) and key_id.text not in self._revoked:
                signers.append(_derived(master, key_id))
        if not signers:
            raise KeysRefused(
                f"no key of {self.name} is valid for {aud}", code="expired", remedy=_GRANT_REMEDY
            )
        return tuple(signers[: limits.SIGNATURES_MAX])

    def verifier(self, kid: str) -> Verifier | None:
        """Return the key behind a host's result, None unless we granted that host one."""
        key_id, master = self._own(kid, RESULT)
        if key_id is None or master is None or key_id.aud_kind != "host":
            return None
        now = self._clock.wall()
        for grant in self._grants:
            if (grant.host, grant.generation) == (key_id.aud_name, key_id.generation):
                usable = grant.is_valid_at(now, grace_s=RESULT_GRACE_S)
                return _derived(master, key_id) if usable else None
        return None

    def receipt_verifier(self, kid: str) -> Verifier | None:
        """Return the key behind a receipt of our own, None when that id is none of ours."""
        key_id, master = self._own(kid, RECEIPT)
        return None if key_id is None or master is None else _derived(master, key_id)

    def _own(self, kid: str, purpose: str) -> tuple[KeyId | None, Master | None]:
        key_id = parse_key_id(kid)
        if key_id is None or (key_id.iss, key_id.purpose) != (self.name, purpose):
            return None, None
        return key_id, None if kid in self._revoked else self._masters.get(key_id.generation)

    def create_grant(self, host: str, lanes: Sequence[str], *, days: int = GRANT_DAYS) -> Grant:
        """Return a grant of the newest generation for `host` and `lanes`; writes nothing.

        Raises InvalidRequest for a malformed or repeated name.
        """
        return derive_grant(self.masters[-1], host, lanes, days=days, now=self._clock.wall())


class HostKeyring:
    """What one host checks jobs and signs results with, from any number of senders."""

    def __init__(
        self, host: str, grants: Sequence[Grant], *, revoked: frozenset[str], clock: Clock
    ) -> None:
        self.host = host
        self._grants = tuple(grants)
        self._revoked = revoked
        self._clock = clock
        self._keys: dict[str, tuple[Grant, Key]] = {}
        for grant in self._grants:
            ids = grant.wanted_key_ids()
            for item in grant.keys:
                key = build_key(item.alg, ids[item.kid], item.secret_bytes)
                self._keys[item.kid] = (grant, key)

    @classmethod
    def load(cls, keys_dir: Path, host: str, clock: Clock) -> HostKeyring:
        """Return the ring of `host`: the grants that were accepted here for that name.

        Raises KeysRefused when there is none or a file is not ours alone.
        """
        check_private_folder(keys_dir)
        grants = [item for item in read_records(keys_dir, Grant) if item.host == host]
        if not grants:
            raise KeysRefused(
                f"no sender's grant for host {host} was accepted here",
                code="missing",
                remedy="fleet-dispatch keys accept FILE",
            )
        return cls(host, grants, revoked=read_revoked(keys_dir), clock=clock)

    @property
    def grants(self) -> tuple[Grant, ...]:
        """Return the accepted grants, expired ones included."""
        return self._grants

    def audiences(self) -> frozenset[str]:
        """Return every audience that a job key of this ring is for."""
        lanes = {lane_audience(lane) for grant in self._grants for lane in grant.lanes}
        return frozenset({host_audience(self.host), *lanes})

    def verifier(self, kid: str) -> Verifier | None:
        """Return the job key of that id if it may be used now."""
        key_id = parse_key_id(kid)
        if key_id is None or key_id.purpose != JOB:
            return None
        return self._usable(kid, grace_s=0)

    def result_signer(self, iss: str, *, job_kid: str | None = None) -> Signer:
        """Return the key that answers sender `iss`: of the generation that signed the job when its
        key id is given, else of the newest. It outlives the grant, so that late results count.

        Raises KeysRefused when there is none.
        """
        asked = parse_key_id(job_kid) if job_kid is not None else None
        mine = sorted((item.generation for item in self._grants if item.iss == iss), reverse=True)
        for generation in mine if asked is None else [asked.generation]:
            key_id = KeyId(iss, generation, RESULT, host_audience(self.host))
            key = self._usable(key_id.text, grace_s=RESULT_GRACE_S)
            if key is not None:
                return key
        raise KeysRefused(
            f"host {self.host} holds no key to answer {iss}",
            code="missing",
            remedy="ask that sender for a new grant",
        )

    def _usable(self, kid: str, *, grace_s: int) -> Key | None:
        held = self._keys.get(kid)
        if held is None or kid in self._revoked:
            return None
        grant, key = held
        return key if grant.is_valid_at(self._clock.wall(), grace_s=grace_s) else None


def _derived(master: Master, key_id: KeyId) -> Key:
    return build_key(master.alg, key_id, derive_secret(master.secret_bytes, key_id))
