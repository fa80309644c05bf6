"""What a caller holds of a job that was just queued. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dispatch.hosts import HostView, state_words, waiting_state
from dispatch.job_views import claim_unknown_words
from dispatch.queue import Pushed
from dispatch.sent import SentJob


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHandle:
    """One queued job. `target` is "" when any host of the lane may take it; `note` says why it may
    have to wait."""

    job_id: str
    target: str
    lane: str
    aud: str
    pushed: Pushed
    note: str = ""


def handle_of(
    job: SentJob, pushed: Pushed, hosts: Sequence[HostView] | None, now: float
) -> JobHandle:
    """Return the handle of `job`; `hosts` is None when nobody could be asked for them."""
    state, why = "", ""
    if hosts is not None:
        state, why = waiting_state(job.aud, job.lane, hosts, now=now)
    note = state_words(state, why) if why else ""
    if pushed is Pushed.CLAIM_UNKNOWN:
        note = claim_unknown_words(job.job_id)
    return JobHandle(
        job_id=job.job_id,
        target=job.target,
        lane=job.lane,
        aud=job.aud,
        pushed=pushed,
        note="" if pushed is Pushed.FINISHED else note,
    )
