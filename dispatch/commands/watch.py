"""Saying what becomes of jobs while somebody waits for them: each change once, on stderr."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from contracts.errors import FleetError

if TYPE_CHECKING:
    from dispatch.client import FleetClient
    from dispatch.job_views import JobView


class Watch:
    """The jobs of one wait. `look` is called every few seconds."""

    def __init__(
        self,
        client: FleetClient,
        job_ids: Sequence[str],
        told: Mapping[str, str],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`told` is what was said of a job before, in the words of `state_words`. `check` is called
        at each look and ends the wait by raising."""
        self._client = client
        self._check = check
        self._open = dict.fromkeys(job_ids)
        self._last = {job_id: _kind(words) for job_id, words in told.items()}
        self._notes: dict[str, list[str]] = {job_id: [] for job_id in job_ids}

    def look(self) -> None:
        """Look at the jobs that are still waited for, and say what changed."""
        self._check()
        with contextlib.suppress(FleetError):  # the wait itself says that the broker is away
            for view in self._client.views(list(self._open)):
                self._tell(view)

    def close(self, job_id: str) -> tuple[str, ...]:
        """Stop looking at a job; return what was said of it."""
        self._open.pop(job_id, None)
        return tuple(self._notes[job_id])

    def _tell(self, view: JobView) -> None:
        from dispatch.hosts import HOST_LOST

        words = _words(view)
        before, kind = self._last.get(view.job_id, ""), _kind(words)
        if kind == before:
            return
        self._last[view.job_id] = kind
        if not words and before == HOST_LOST:
            words = f"{view.host or view.target} answers again"
        if words:
            self._notes[view.job_id].append(words)
            click.echo(f"note: {view.job_id} {words}", err=True)


def _words(view: JobView) -> str:
    """Return what there is to say of a job that has no end, "" when it is well on its way."""
    from dispatch.hosts import HOST_LOST, QUEUED, state_words
    from dispatch.job_views import CLAIM_UNKNOWN

    if view.state in (HOST_LOST, QUEUED) and view.why:
        return state_words(view.state, view.why)
    return view.why if view.state == CLAIM_UNKNOWN else ""


def _kind(words: str) -> str:
    """Return what makes two words the same: not for how long a host has been silent."""
    from dispatch.hosts import HOST_LOST

    return HOST_LOST if words.startswith(HOST_LOST) else words
