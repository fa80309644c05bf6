"""Queueing many jobs of one kind: all of them checked first, then signed, recorded and pushed by
the batch.

A batch costs one transaction of our own record before its push, one exchange with the broker, and
one note afterwards. It is bounded in jobs and in bytes. Nothing of a payload is ever in an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from contracts.clock import Clock
from contracts.errors import BulkStopped, FleetError
from dispatch.answers import Answers
from dispatch.bulk_checks import Item, WantedMany, checked_items, sign_wanted
from dispatch.enqueuing import Enqueuing
from dispatch.idempotency import check_same
from dispatch.job_handle import JobHandle
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
        routes = plan_routes(self._answers.keyring, wanted.lane, wanted.targets)
        waiting = iter(checked_items(wanted, routes, self._answers.keyring, self._sent))
        jobs: list[list[SentJob]] = []
        states: list[list[Pushed]] = []
        item = next(waiting, None)
        while item is not None:
            try:
                batch, item = self._record_batch(wanted, routes, item, waiting)
            except FleetError as error:
                if not jobs:
                    raise
                raise _stopped(error, self._handles(jobs, states), len(jobs), wanted) from error
            jobs += batch.jobs
            try:
                states += self._push(batch, is_keyed=wanted.key is not None)
            except FleetError as error:
                queued = len(states)
                states += [[Pushed.UNKNOWN] * len(several) for several in batch.jobs]
                raise _stopped(error, self._handles(jobs, states), queued, wanted) from error
            if wanted.on_batch is not None:
                wanted.on_batch(len(jobs))
        return self._handles(jobs, states)

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

    def _handles(
        self, jobs: Sequence[Sequence[SentJob]], states: Sequence[Sequence[Pushed]]
    ) -> list[list[JobHandle]]:
        flat = [job for several in jobs for job in several]
        told = [state for several in states for state in several]
        found = iter(self._enqueuing.handles(flat, told, self._clock.wall()))
        return [[next(found) for _ in several] for several in jobs]


def _stopped(
    error: FleetError, handles: Sequence[Sequence[JobHandle]], queued: int, wanted: WantedMany
) -> BulkStopped:
    done, places = len(handles), wanted.places
    parts = [f"up to {places[queued - 1]} all are queued"] if queued else []
    if done > queued:
        parts.append(f"from {places[queued]} to {places[done - 1]} nobody knows")
    parts += [f"from {places[done]} on none was sent"] if done < len(places) else []
    remedy = "the same again with the same key queues each of them once"
    if wanted.key is None:
        remedy = "fleet-dispatch jobs says what the broker has; then send the rest"
    return BulkStopped(
        f"{error.message}; {', '.join(parts)}", remedy=remedy, jobs=handles, unsent=done
    )
