"""What one reading of a sender's keys folder held, and what was derived from it since.

A reading never changes: where the folder did, there is another one, and nothing derived from the
first is asked for again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from contracts.envelope import Signer, Verifier
from contracts.naming import host_audience
from dispatch.algorithms import build_signer, build_verifier, checking_part
from dispatch.key_records import Granted, Master
from dispatch.keys import RESULT, KeyId, derive_secret
from dispatch.revocations import Revocations


@dataclass(frozen=True)
class KeyReading:
    """One reading of the folder, and what was derived from it since."""

    masters: dict[int, Master]
    grants: tuple[Granted, ...]
    revoked: Revocations
    secrets: dict[KeyId, bytes] = field(default_factory=dict, repr=False)
    signers: dict[KeyId, Signer] = field(default_factory=dict, repr=False)

    @cached_property
    def living_grants(self) -> tuple[Granted, ...]:
        """Return the grants to hosts that are not revoked."""
        return tuple(
            note
            for note in self.grants
            if not self.revoked.covers(
                KeyId(note.iss, note.generation, RESULT, host_audience(note.host))
            )
        )

    def secret(self, key_id: KeyId) -> bytes:
        """Return the secret of a key whose generation is here."""
        found = self.secrets.get(key_id)
        if found is None:
            master = self.masters[key_id.generation]
            found = derive_secret(master.secret_bytes, key_id, master.alg)
            self.secrets[key_id] = found
        return found

    def signer(self, key_id: KeyId) -> Signer:
        """Return what signs with a key whose generation is here."""
        found = self.signers.get(key_id)
        if found is None:
            found = build_signer(self.masters[key_id.generation].alg, key_id, self.secret(key_id))
            self.signers[key_id] = found
        return found

    def verifier(self, key_id: KeyId) -> Verifier:
        """Return what checks a key whose generation is here."""
        algorithm = self.masters[key_id.generation].alg
        return build_verifier(algorithm, key_id, checking_part(algorithm, self.secret(key_id)))
