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


def handle_of(job: SentJob, pushed: Pushed, note: str) -> JobHandle:
    """Return the handle of `job`; `note` is what its `waiting_note` was."""
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


def handles_of(
    jobs: Sequence[SentJob], pushed: Sequence[Pushed], hosts: Sequence[HostView] | None, now: float
) -> list[JobHandle]:
    """Return the handles of jobs; `hosts` is None when nobody could be asked for them."""
    notes: dict[tuple[str, str], str] = {}
    for job in jobs:
        if (job.aud, job.lane) not in notes:
            notes[job.aud, job.lane] = _waiting_note(job, hosts, now)
    pairs = zip(jobs, pushed, strict=True)
    return [handle_of(job, state, notes[job.aud, job.lane]) for job, state in pairs]


def _waiting_note(job: SentJob, hosts: Sequence[HostView] | None, now: float) -> str:
    """Return why nobody takes such a job now, "" when somebody will or nobody could be asked."""
    if hosts is None:
        return ""
    state, why = waiting_state(job.aud, job.lane, hosts, now=now)
    return state_words(state, why) if why else ""
