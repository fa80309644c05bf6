"""Signed questions of senders: who asks, and whether it is the first time. Answers nothing itself.

A question that somebody copied is refused by its nonce, which stands in the journal as long as the
question lives: whoever heard it reads nothing with it, after a restart either.
"""

from __future__ import annotations

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
from worker.journal.asked import AskedNonces

# A cancel or an ask of ours is below 1 KiB of claims and has four signatures at most.
TEXT_MAX_BYTES: Final = 2 * limits.CONTROL_MAX_BYTES


@dataclass(frozen=True, slots=True)
class VerifiedAsk:
    """A question as signed, and the key that signed it."""

    claims: AskClaims
    kid: str


class Asks:
    """The questions to one host; safe between threads."""

    def __init__(self, keyring: HostKeyring, asked: AskedNonces, clock: Clock) -> None:
        self._keyring = keyring
        self._asked = asked
        self._clock = clock

    def verify(self, text: str | bytes) -> VerifiedAsk:
        """Return the question in the envelope `text`, each one once.

        Raises EnvelopeRefused (its code is for our log), and the journal's errors.
        """
        if len(text) > TEXT_MAX_BYTES:
            raise EnvelopeRefused(f"{len(text)} characters", code="too_large")
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
        until = claims.exp + limits.SKEW_S
        if not self._asked.use(claims.iss, claims.nonce, until=until):
            raise EnvelopeRefused("asked before", code="replayed")
        return VerifiedAsk(claims, opened.kid)
