"""Putting together what is shown of jobs: our record, what verified, and what the broker says."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from contracts.clock import Clock
from contracts.errors import (
    CouldNotCheck,
    EnvelopeRefused,
    FleetError,
    KeysRefused,
    Unavailable,
)
from dispatch.answers import Answers
from dispatch.hosts import HostView
from dispatch.job_views import Ended, JobView, view_job
from dispatch.queue import FleetQueue, Whereabouts
from dispatch.queue.delivery_reads import read_deliveries
from dispatch.sent import SentJob, SentJobs
from dispatch.sweeper import Sweeper
from dispatch.times import rfc3339


class Viewing:
    """The views of one sender. Every method may raise Unavailable."""

    def __init__(
        self, answers: Answers, sweeper: Sweeper, queue: FleetQueue, sent: SentJobs, clock: Clock
    ) -> None:
        self._answers = answers
        self._sweeper = sweeper
        self._queue = queue
        self._sent = sent
        self._clock = clock

    def newest(self, limit: int, hosts: Callable[[], Sequence[HostView]]) -> list[JobView]:
        """Return at most `limit` of the newest jobs, newest first; without a broker those of ours
        that were sent over HTTP, where there are some. `hosts` asks the broker who is there."""
        try:
            seen = hosts()
        except Unavailable:
            at_doors = [self._at_door(job) for job in self._sent.recent(limit) if job.url]
            if not at_doors:
                raise
            return at_doors
        ours = {job.job_id: job for job in self._sent.recent(limit)}
        ids = dict.fromkeys([*ours, *self._queue.recent_job_ids(limit)])
        views = [self._view(job_id, ours.get(job_id), seen) for job_id in ids]
        return sorted(views, key=lambda view: view.age_s)[:limit]

    def of(self, job_ids: Sequence[str], hosts: Callable[[], Sequence[HostView]]) -> list[JobView]:
        """Return the views of these jobs; no broker is asked where none of them came over one."""
        found = [self._sent.find(job_id) for job_id in job_ids]
        needs_none = all(job is not None and job.url for job in found)
        seen = [] if needs_none else hosts()
        return [self._view(*pair, seen) for pair in zip(job_ids, found, strict=True)]

    def _view(self, job_id: str, sent: SentJob | None, hosts: Sequence[HostView]) -> JobView:
        if sent is not None and sent.url:
            return self._at_door(sent)
        ended = None if sent is None else self._ended(sent)
        where: Whereabouts | None = None
        if sent is not None and ended is None:
            with contextlib.suppress(CouldNotCheck):
                where = self._sweeper.where(sent, hosts)
        shown, now = self._queue.shown(job_id), self._clock.wall()
        view = view_job(job_id, shown, sent, hosts, verified=ended, now=now, where=where)
        if sent is None or ended is not None:
            return view
        told = self._told(sent)
        why = f"{view.why}; {told}" if view.why and told else view.why or told
        return self._taken_back(replace(view, why=why))

    def _told(self, sent: SentJob) -> str:
        """Return what hosts answered, signed, to further copies of a job; "" where they did not."""
        from dispatch.deliveries import open_delivery

        counts: Counter[tuple[str, str]] = Counter()
        for text in read_deliveries(self._queue, sent.job_id):
            with contextlib.suppress(
                EnvelopeRefused, KeysRefused
            ):  # of nobody whom we granted a key
                claims = open_delivery(text, self._answers.keyring, sent)
                counts[claims.iss, claims.code.value] += 1
        parts = [
            f"{host} answered {code} {'once' if n == 1 else f'{n} times'}"
            for (host, code), n in sorted(counts.items())
        ]
        return "; ".join(parts)

    def _taken_back(self, view: JobView) -> JobView:
        """Say of a job without an end that it was taken back, where it was."""
        wish = self._sent.cancels.find(view.job_id)
        if wish is None:
            return view
        why = f"taken back at {rfc3339(wish.at)}, and not ended yet"
        return replace(view, why=f"{why}; {view.why}" if view.why else why)

    def _at_door(self, sent: SentJob) -> JobView:
        ended = None
        with contextlib.suppress(FleetError):  # a host that is away is no reason to show nothing
            ended = self._ended(sent)
        view = view_job(sent.job_id, {}, sent, (), verified=ended, now=self._clock.wall())
        if ended is not None or view.state == "expired":
            return view
        if sent.pushed_at is None:
            why = f"{sent.url} has not said that it has it"
            return self._taken_back(replace(view, state="unknown", why=why))
        accepted = replace(view, state="accepted", host=sent.door_host, why=f"over {sent.url}")
        return self._taken_back(accepted)

    def _ended(self, sent: SentJob) -> Ended | None:
        try:
            found = self._answers.result(sent)
        except KeysRefused:
            return None
        return None if found is None else Ended(found.status, found.host, found.note)
