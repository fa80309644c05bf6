"""The events of a job of ours, as its host signed them: in order, each once, none missing.

Reads the job's stream at the broker, verifies every entry against our keys and our own record of
the job, and asks the host for what the stream does not hold. What does not verify is dropped and
told. Decides nothing about a job: events are what an agent said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from contracts import limits
from contracts.ask import AskClaims, Asked
from contracts.clock import Clock
from contracts.envelope import ASK_TYPE, EVENT_TYPE, open_envelope, seal
from contracts.errors import EnvelopeRefused, Unavailable
from contracts.event_batch import EventBatch, read_event_batch
from contracts.events import JobEvent
from contracts.ids import new_job_id
from contracts.naming import host_audience
from dispatch.keyring import SenderKeyring
from dispatch.keys import parse_key_id
from dispatch.queue import FleetQueue
from dispatch.queue.event_reads import read_entries
from dispatch.sent import SentJob

_HELD_MAX: Final = 128  # batches that came before their turn
_NOTES_MAX: Final = 20


class EventFeed:
    """The events of one job from a number on."""

    def __init__(
        self,
        queue: FleetQueue,
        keyring: SenderKeyring,
        sent: SentJob,
        clock: Clock,
        *,
        from_seq: int = 1,
    ) -> None:
        self._queue = queue
        self._keyring = keyring
        self._sent = sent
        self._clock = clock
        self._after = ""
        self._held: dict[int, tuple[JobEvent, ...]] = {}
        self.next_seq = from_seq
        self.host = sent.target
        self.has_ended = False
        self.notes: list[str] = []  # what was dropped, and why

    @property
    def has_gap(self) -> bool:
        """Say whether later events are here and earlier ones are not."""
        return bool(self._held)

    def read(self) -> list[JobEvent]:
        """Return the events whose turn it is among what the broker has by now. May raise
        Unavailable or CouldNotCheck."""
        found: list[JobEvent] = []
        while entries := self._entries():
            for entry_id, text in entries:
                self._after = entry_id
                self._take(entry_id, text)
                found += self._due()
        return found

    def ask(self) -> bool:
        """Ask the host for the events from the next one on; say whether there was one to ask. May
        raise Unavailable, CouldNotCheck or KeysRefused."""
        hosts = (self.host,) if self.host else self._keyring.hosts_of(self._sent.lane)
        for host in hosts:
            self._queue.put_ask(host, self._question(host))
        return bool(hosts)

    def _entries(self) -> list[tuple[str, str]]:
        try:
            return read_entries(self._queue, self._sent.job_id, self._after)
        except Unavailable as error:
            if not self._sent.url:
                raise
            raise Unavailable(
                f"job {self._sent.job_id} was sent over HTTP, where no events are given out",
                remedy=f"on its host: fleet-dispatch events {self._sent.job_id} --local",
            ) from error

    def _question(self, host: str) -> str:
        now = int(self._clock.wall())
        aud = host_audience(host)
        claims = AskClaims(
            iss=self._keyring.name,
            aud=aud,
            jti=self._sent.job_id,
            iat=now,
            exp=now + limits.ASK_TTL_MAX_S,
            nonce=new_job_id(),
            what=Asked.EVENTS,
            fromSeq=self.next_seq,
        )
        signers = self._keyring.signers("ask", aud)
        return seal(claims.model_dump_json().encode("utf-8"), ASK_TYPE, signers)

    def _take(self, entry_id: str, text: str) -> None:
        try:
            batch, events = open_events(text, self._keyring, self._sent)
        except EnvelopeRefused as error:
            if len(self.notes) < _NOTES_MAX:
                self.notes.append(f"entry {entry_id} was dropped: {error.message} ({error.code})")
            return
        self.host = batch.iss
        is_due = batch.first <= self.next_seq  # what fills a gap always has room
        if events[-1].seq >= self.next_seq and (is_due or len(self._held) < _HELD_MAX):
            self._held.setdefault(batch.first, events)

    def _due(self) -> list[JobEvent]:
        """Return what follows the last event; a batch that was sent twice counts once."""
        found: list[JobEvent] = []
        for first in sorted(self._held):
            if first > self.next_seq:
                break
            due = [event for event in self._held.pop(first) if event.seq >= self.next_seq]
            if due:
                self.next_seq = due[-1].seq + 1
                self.has_ended = self.has_ended or is_final(due)
                found += due
        return found


def open_events(
    text: str, keyring: SenderKeyring, sent: SentJob
) -> tuple[EventBatch, tuple[JobEvent, ...]]:
    """Return the batch in an envelope if it is one of `sent`.

    Raises EnvelopeRefused: its code says why (`unknown_key`, `bad_signature`, `host`, `lane`,
    `audience`, `job`, `job_bytes`, `malformed`, …).
    """
    opened = open_envelope(text, keyring.host_keys("event"), EVENT_TYPE)
    key_id = parse_key_id(opened.kid)
    assert key_id is not None  # the keyring answers to well-formed ids alone
    batch, events = read_event_batch(opened.payload)
    signing = key_id.aud_name
    lanes = keyring.lanes_ever_of(signing)
    checks = (
        (batch.iss == signing, "host", "signed by another host than it says"),
        (not sent.target or sent.target == signing, "host", "not the host of the job"),
        (bool(sent.target) or sent.lane in lanes, "lane", "a host without this lane"),
        (batch.aud == keyring.name, "audience", "for another sender"),
        (batch.jti == sent.job_id, "job", "for another job"),
        (batch.jobSha256 == sent.sha256, "job_bytes", "for other job bytes"),
    )
    for holds, code, message in checks:
        if not holds:
            raise EnvelopeRefused(message, code=code)
    return batch, events


def is_final(events: Sequence[JobEvent]) -> bool:
    """Say whether the last of `events` is the last of its job."""
    return bool(events) and events[-1].data.get("final") is True
