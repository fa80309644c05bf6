"""A keyring seen for one purpose, as `contracts.envelope.open_envelope` asks for keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from contracts.envelope import Verifier


@dataclass(frozen=True, slots=True)
class PurposeKeys:
    """The keys of one purpose; `find` returns the usable key of an id, None when there is none."""

    purpose: str
    find: Callable[[str, str], Verifier | None]

    def verifier(self, kid: str) -> Verifier | None:
        """See VerifierLookup."""
        return self.find(self.purpose, kid)
