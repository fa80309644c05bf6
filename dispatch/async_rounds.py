"""One round every few seconds for all jobs that a client of asyncio waits for.

A round only wakes; whoever is woken looks and verifies.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from contracts.errors import FleetError
from dispatch.hosts import HostView
from dispatch.queue.result_store import RECHECK_S
from dispatch.rounds import Rounds
from dispatch.sent import SentJob


class AsyncRounds:
    """The rounds of one client, while it waits for anything. Use it from one event loop."""

    def __init__(self, rounds: Rounds, ring: Callable[[str], None]) -> None:
        """`ring` wakes who waits for a job."""
        self._rounds = rounds
        self._ring = ring
        self._jobs: dict[str, SentJob] = {}
        self._waiting: Counter[str] = Counter()
        self._task: asyncio.Task[None] | None = None
        # All that there are, as the last round saw them a few seconds ago; None when nobody knows.
        self.hosts: Sequence[HostView] | None = None

    @asynccontextmanager
    async def including(self, sent: SentJob) -> AsyncIterator[None]:
        """Let rounds see to a job inside the block. One that went to a host's door is of no round:
        its broker knows nothing of it."""
        if sent.url:
            yield
            return
        job_id = sent.job_id
        self._jobs[job_id] = sent
        self._waiting[job_id] += 1
        if self._task is None:
            self._task = asyncio.create_task(self._go_round())
        try:
            yield
        finally:
            self._waiting[job_id] -= 1
            if not self._waiting[job_id]:
                del self._waiting[job_id], self._jobs[job_id]
            if not self._jobs:
                self._stop()

    async def close(self) -> None:
        """End the rounds; the next job that is waited for begins them again."""
        task = self._stop()
        if task is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def _stop(self) -> asyncio.Task[None] | None:
        task, self._task, self.hosts = self._task, None, None
        if task is not None:
            task.cancel()
        return task

    async def _go_round(self) -> None:
        is_first = True  # who begins to wait has looked by himself
        while True:
            jobs = dict(self._jobs)
            try:
                found = await asyncio.to_thread(self._rounds.look, jobs, is_new=False)
                due, self.hosts = [] if is_first else found.due, found.hosts
            except FleetError:
                self._rounds.forget()
                due, self.hosts = list(jobs), None
            is_first = False
            for job_id in due:
                self._ring(job_id)
            await asyncio.sleep(RECHECK_S)
