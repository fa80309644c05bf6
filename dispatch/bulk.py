"""Queueing many jobs of one kind: all of them checked first, then signed, recorded and pushed by
the batch.

A batch costs one transaction of our own record before its push, one exchange with the broker, and
one note afterwards. It is bounded in jobs and in bytes. Nothing of a payload is ever in an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from contracts.clock import Clock
from contracts.errors import BulkStopped, FleetError
from dispatch.answers import Answers
from dispatch.bulk_checks import Item, WantedMany, checked_items, sign_wanted
from dispatch.enqueuing import Enqueuing
from dispatch.idempotency import check_same
from dispatch.job_handle import JobHandle, handles_of
from dispatch.queue import Pushed
from dispatch.routing import Route, plan_routes
from dispatch.sent import SentJob, SentJobs
from dispatch.sweeper import Sweeper

# Beyond 256 jobs a batch is no faster, and the broker serves nobody else while it writes one.
_BATCH_JOBS: Final = 256
_BATCH_BYTES: Final = 4 * 1024 * 1024  # of envelopes; one that is larger goes alone


class _Batch(NamedTuple):
    """Jobs that stand in the record. `new` says of each payload whether it was not there before."""

    jobs: list[list[SentJob]]
    new: list[bool]
    away: FleetError | None


@dataclass(slots=True)
class _Come:
    """How far it came: the jobs of each payload that stands in the record, what became of those of
    which that is known, and up to how many payloads the broker may have heard of."""

    jobs: list[list[SentJob]]
    states: list[list[Pushed]]
    asked: int = 0


class Bulk:
    """The way in of many jobs at once."""

    def __init__(
        self,
        answers: Answers,
        enqueuing: Enqueuing,
        sweeper: Sweeper,
        sent: SentJobs,
        clock: Clock,
    ) -> None:
        self._answers = answers
        self._enqueuing = enqueuing
        self._sweeper = sweeper
        self._sent = sent
        self._clock = clock

    def enqueue(self, wanted: WantedMany) -> list[list[JobHandle]]:
        """Queue what is wanted; see `FleetClient.enqueue_many`."""
        come = _Come([], [])
        try:
            self._send(wanted, come)
        except FleetError as error:
            if not come.jobs:
                raise
            raise self._stopped(error.message, come, wanted, asks=True) from error
        except KeyboardInterrupt as interrupt:
            # The cause says what there is: a caller may show it.
            cause = self._stopped("interrupted", come, wanted, asks=False)
            raise KeyboardInterrupt(*interrupt.args) from cause
        return self._handles(come, asks=True)

    def _send(self, wanted: WantedMany, come: _Come) -> None:
        """Send all that is wanted; `come` says at any moment how far that came."""
        routes = plan_routes(self._answers.keyring, wanted.lane, wanted.targets)
        waiting = iter(checked_items(wanted, routes, self._answers.keyring, self._sent))
        item = next(waiting, None)
        while item is not None:
            batch, item = self._record_batch(wanted, routes, item, waiting)
            come.jobs += batch.jobs
            if batch.away is None or not all(batch.new):
                come.asked = len(come.jobs)  # or a call before this one may have pushed them
            come.states += self._push(batch, is_keyed=wanted.key is not None)
            if wanted.on_batch is not None:
                wanted.on_batch(len(come.jobs))

    def _record_batch(
        self,
        wanted: WantedMany,
        routes: Sequence[Route],
        first: Item,
        waiting: Iterator[Item],
    ) -> tuple[_Batch, Item | None]:
        """Sign and record as many payloads as fit into a batch; return the one after them too."""
        ring = self._answers.keyring
        ways = [(route, ring.job_signers(route.aud)) for route in routes]
        mark, away = self._enqueuing.mark()
        now = int(self._clock.wall())
        taken: list[Item] = []
        signed: list[list[SentJob]] = []
        room = _BATCH_BYTES
        item: Item | None = first
        while item is not None and room > 0 and len(signed) * len(ways) < _BATCH_JOBS:
            jobs = [
                sign_wanted(ring, way, wanted, item, now=now, broker=mark, signers=signers)
                for way, signers in ways
            ]
            taken.append(item)
            signed.append(jobs)
            room -= sum(len(job.envelope) for job in jobs)
            item = next(waiting, None)
        return self._record(taken, signed, away), item

    def _record(
        self, taken: Sequence[Item], signed: list[list[SentJob]], away: FleetError | None
    ) -> _Batch:
        now = self._clock.wall()
        asked = [item.once for item in taken if item.once is not None]
        if not asked:
            self._sent.record([job for jobs in signed for job in jobs], now=now)
            return _Batch(signed, [True] * len(signed), away)
        held = self._sent.record_each_once(zip(asked, signed, strict=True), now=now)
        for once, (text, _) in zip(asked, held, strict=True):
            check_same(text, once.asked, once.key)
        new = [ours == kept for ours, (_, kept) in zip(signed, held, strict=True)]
        return _Batch([kept for _, kept in held], new, away)

    def _push(self, batch: _Batch, *, is_keyed: bool) -> list[list[Pushed]]:
        if batch.away is not None:
            raise batch.away
        pairs = list(zip(batch.jobs, batch.new, strict=True))
        new = [job for jobs, is_new in pairs if is_new for job in jobs]
        fresh = iter(self._sweeper.push_new(new, is_keyed=is_keyed) if new else [])
        return [
            [next(fresh) if is_new else self._sweeper.push_again(job) for job in jobs]
            for jobs, is_new in pairs
        ]

    def _handles(self, come: _Come, *, asks: bool) -> list[list[JobHandle]]:
        """Return the handles of all jobs that stand in the record. `asks` also asks the broker why
        they may have to wait."""
        flat = [job for several in come.jobs for job in several]
        told = [state for several in come.states for state in several]
        told += [Pushed.UNKNOWN] * (len(flat) - len(told))
        now = self._clock.wall()
        make = (
            self._enqueuing.handles(flat, told, now) if asks else handles_of(flat, told, None, now)
        )
        found = iter(make)
        return [[next(found) for _ in several] for several in come.jobs]

    def _stopped(self, why: str, come: _Come, wanted: WantedMany, *, asks: bool) -> BulkStopped:
        words, remedy = _how_far(come, wanted)
        handles = self._handles(come, asks=asks)
        return BulkStopped(f"{why}; {words}", remedy=remedy, jobs=handles, unsent=len(come.jobs))


def _how_far(come: _Come, wanted: WantedMany) -> tuple[str, str]:
    """Return what to say of payloads that were not all sent, and how to send each of them once."""
    queued, asked, places = len(come.states), come.asked, wanted.places
    parts = [f"up to {places[queued - 1]} all are queued"] if queued else []
    if asked > queued:
        parts.append(f"from {places[queued]} to {places[asked - 1]} nobody knows")
    if asked < len(places):
        parts.append(f"from {places[asked]} on none was sent")
    words = ", ".join(parts)
    if not asked:
        return f"nothing was queued: {words}", "send all of it again"
    if queued == len(places):
        return words, "nothing is left to send"
    if wanted.key is not None:
        once = "the same again with the same key queues each of them once"
        if asked > queued and not wanted.targets:
            once += ", or says claim_unknown of one that a host of the lane may have started"
        return words, once
    rest = "send the rest with an idempotency key: then the same again queues each of it once"
    if asked == queued:
        return words, rest
    doubt = "fleet-dispatch sweep with the ids of those in doubt queues what is not there"
    return words, f"{doubt}; {rest}" if asked < len(places) else doubt
