"""Signed questions of senders: who asks, and whether it is the first time. Answers nothing itself.

A question that somebody copied is refused by its nonce, which is remembered as long as the question
lives; it reads nothing and changes nothing, so that a restart may forget it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

from contracts import limits, naming
from contracts.ask import AskClaims, check_ask_claims, read_ask_claims
from contracts.clock import Clock
from contracts.envelope import ASK_TYPE, open_envelope
from contracts.errors import EnvelopeRefused
from dispatch.keyring import HostKeyring
from dispatch.keys import ASK, parse_key_id
from dispatch.lookups import PurposeKeys

# Some minutes of asks of a large fleet; the oldest are forgotten first, never refused.
_NONCES_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class VerifiedAsk:
    """A question as signed, and the key that signed it."""

    claims: AskClaims
    kid: str


class Asks:
    """The questions to one host; safe between threads."""

    def __init__(self, keyring: HostKeyring, clock: Clock) -> None:
        self._keyring = keyring
        self._clock = clock
        self._lock = threading.Lock()
        self._nonces: dict[tuple[str, str], float] = {}

    def verify(self, text: str | bytes) -> VerifiedAsk:
        """Return the question in the envelope `text`, each one once.

        Raises EnvelopeRefused (its code is for our log) or InvalidRequest.
        """
        keys = PurposeKeys(ASK, self._keyring.message_verifier)
        opened = open_envelope(text, keys, ASK_TYPE)
        claims = read_ask_claims(opened.payload)
        key_id = parse_key_id(opened.kid)
        if key_id is None or (key_id.iss, key_id.purpose, key_id.aud) != (
            claims.iss,
            ASK,
            claims.aud,
        ):
            raise EnvelopeRefused("signed with a key for something else", code="foreign_key")
        now = self._clock.wall()
        check_ask_claims(claims, audience=naming.host_audience(self._keyring.host), now=now)
        if not self._is_new(claims, now):
            raise EnvelopeRefused("asked before", code="replayed")
        return VerifiedAsk(claims, opened.kid)

    def _is_new(self, claims: AskClaims, now: float) -> bool:
        key, until = (claims.iss, claims.nonce), claims.exp + limits.SKEW_S
        with self._lock:
            if key in self._nonces:
                return False
            self._nonces[key] = float(until)
            if len(self._nonces) > _NONCES_MAX:
                self._nonces = {k: u for k, u in self._nonces.items() if u > now}
            while len(self._nonces) > _NONCES_MAX:
                del self._nonces[next(iter(self._nonces))]
            return True
