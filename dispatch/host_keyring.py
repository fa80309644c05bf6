"""What one host checks senders' messages and signs its answers with, from any number of senders.

Holds derived keys only: it can check what is for itself and its lanes, sign its own answers, and
forge nothing for another host. Answers from memory and follows its folder: a grant that is accepted
or a key that is revoked while the listener runs counts within a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from contracts import limits
from contracts.clock import Clock
from contracts.envelope import Signer, Verifier
from contracts.errors import CouldNotCheck, KeysRefused
from contracts.naming import host_audience, lane_audience
from dispatch.algorithms import build_signer, build_verifier
from dispatch.key_folder import KeyFolder
from dispatch.key_records import RESULT_GRACE_S, Grant
from dispatch.key_store import read_records
from dispatch.keys import BY_HOST, BY_SENDER, JOB, RESULT, KeyId, parse_key_id
from dispatch.lookups import PurposeKeys
from dispatch.private_files import check_private_folder
from dispatch.revocations import Revocations, read_revocations

# A sender signs with its newest generation from the moment it grants it, and a job lives so long
# at most: what an older generation alone has signed after that is no job of that sender.
_OLD_GENERATION_S = limits.JOB_TTL_MAX_S + limits.SKEW_S


@dataclass(frozen=True)
class _Held:
    """One reading of the folder."""

    grants: tuple[Grant, ...]
    revoked: Revocations
    verifiers: dict[str, tuple[Grant, KeyId, Verifier]]
    signers: dict[str, tuple[Grant, KeyId, Signer]]


class HostKeyring:
    """What one host checks jobs and signs results with."""

    def __init__(self, host: str, keys_dir: Path, clock: Clock) -> None:
        self.host = host
        self._clock = clock
        self._folder = KeyFolder(keys_dir, self._read, clock)

    @classmethod
    def load(cls, keys_dir: Path, host: str, clock: Clock) -> HostKeyring:
        """Return the ring of `host`: the grants that were accepted here for that name.

        Raises KeysRefused when there is none or a file is not ours alone. Later calls raise
        CouldNotCheck while the folder cannot be read: neither a yes nor a no.
        """
        ring = cls(host, keys_dir, clock)
        if not ring.grants:
            raise KeysRefused(
                f"no sender's grant for host {host} was accepted here",
                code="missing",
                remedy="fleet-dispatch keys accept FILE",
            )
        return ring

    def _read(self, keys_dir: Path) -> _Held:
        check_private_folder(keys_dir)
        grants = tuple(item for item in read_records(keys_dir, Grant) if item.host == self.host)
        verifiers: dict[str, tuple[Grant, KeyId, Verifier]] = {}
        signers: dict[str, tuple[Grant, KeyId, Signer]] = {}
        for grant in grants:
            ids = grant.wanted_key_ids()
            for item in grant.keys:
                key_id = ids[item.kid]
                if item.kid in verifiers or item.kid in signers:
                    raise KeysRefused(
                        f"two grants in {keys_dir} hold the key {item.kid}", code="malformed"
                    )
                if key_id.purpose in BY_SENDER:
                    verifier = build_verifier(item.alg, key_id, item.key_bytes)
                    verifiers[item.kid] = (grant, key_id, verifier)
                else:
                    signers[item.kid] = (
                        grant,
                        key_id,
                        build_signer(item.alg, key_id, item.key_bytes),
                    )
        return _Held(grants, read_revocations(keys_dir), verifiers, signers)

    def _held(self) -> _Held:
        try:
            return self._folder.value()
        except KeysRefused as error:
            raise CouldNotCheck(error.message, remedy=error.remedy) from error

    @property
    def grants(self) -> tuple[Grant, ...]:
        """Return the accepted grants, expired ones included."""
        return self._held().grants

    def audiences(self) -> frozenset[str]:
        """Return every audience that a job key of this ring is for."""
        lanes = {lane_audience(lane) for grant in self.grants for lane in grant.lanes}
        return frozenset({host_audience(self.host), *lanes})

    def message_verifier(self, purpose: str, kid: str) -> Verifier | None:
        """Return the key behind what a sender signed, if it may be used now: a `job`, `cancel` or
        `ask`. None for an id of another purpose, too."""
        held = self._held()
        found = held.verifiers.get(kid)
        if found is None or found[1].purpose != purpose:
            return None
        grant, key_id, verifier = found
        now = self._clock.wall()
        if held.revoked.covers(key_id) or not grant.is_valid_at(now):
            return None
        return verifier if now < self._ends_at(held, grant) else None

    def message_keys(self, purpose: str) -> PurposeKeys:
        """Return the ring as `open_envelope` asks it for what senders sign; see
        `message_verifier`."""
        return PurposeKeys(purpose, self.message_verifier)

    def verifier(self, kid: str) -> Verifier | None:
        """Return the job key of that id; see `message_verifier`."""
        return self.message_verifier(JOB, kid)

    def host_signer(self, purpose: str, iss: str, *, job_kid: str | None = None) -> Signer:
        """Return the key that signs a `result`, `event`, `delivery` or `held` for sender `iss`: of
        the generation that signed the job when its key id is given, else of the newest. It outlives
        the grant, so that late results count.

        Raises KeysRefused when there is none.
        """
        if purpose not in BY_HOST:
            raise ValueError(f"a host signs no {purpose}")
        held, now = self._held(), self._clock.wall()
        asked = parse_key_id(job_kid) if job_kid is not None else None
        mine = sorted((item.generation for item in held.grants if item.iss == iss), reverse=True)
        for generation in mine if asked is None else [asked.generation]:
            key_id = KeyId(iss, generation, purpose, host_audience(self.host))
            found = held.signers.get(key_id.text)
            if found is None or held.revoked.covers(key_id):
                continue
            if found[0].is_valid_at(now, grace_s=RESULT_GRACE_S):
                return found[2]
        what = "answer" if purpose == RESULT else f"sign a {purpose} for"
        raise KeysRefused(
            f"host {self.host} holds no key to {what} {iss}",
            code="missing",
            remedy="ask that sender for a new grant",
        )

    def result_signer(self, iss: str, *, job_kid: str | None = None) -> Signer:
        """Return the key that signs a result for sender `iss`; see `host_signer`."""
        return self.host_signer(RESULT, iss, job_kid=job_kid)

    def missing_purposes(self) -> dict[str, frozenset[str]]:
        """Return what the newest grant of each sender has no key for, of those that lack any: ask
        that sender for a new grant."""
        newest: dict[str, Grant] = {}
        for grant in sorted(self.grants, key=lambda item: item.generation):
            newest[grant.iss] = grant
        lacking = {iss: grant.missing_purposes() for iss, grant in newest.items()}
        return {iss: purposes for iss, purposes in lacking.items() if purposes}

    def _ends_at(self, held: _Held, grant: Grant) -> float:
        """Return when an older generation ends (Unix seconds); never for the newest one."""
        return min(
            (other.grantedAt + _OLD_GENERATION_S for other in _newer(held, grant)),
            default=float("inf"),
        )


def _newer(held: _Held, grant: Grant) -> Sequence[Grant]:
    aud = host_audience(grant.host)
    return [
        other
        for other in held.grants
        if other.iss == grant.iss
        and other.generation > grant.generation
        and not held.revoked.covers(KeyId(other.iss, other.generation, JOB, aud))
    ]
